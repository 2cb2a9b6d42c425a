"""Operators' services: request-reply on `beamline.router.v1.admin.*`, one queue group, found by the NATS service protocol.

    request ── door: reply address, limits, JSON, api_key ──> asked ── a service's answer ──> {ok: true, …}
                 └────────────── Declined ───────────────────────────────┴──────────────> {ok: false, error}

`station` is the motion: nats.micro, one task a request, an answer for each of them. `policies`, `extensions`, `breakers`,
`pipeline` and `decisions` are the services, each over the small ports that it declares; `app.admin` joins them with what
they ask. Who may connect at all is the server's to say; the api_key stands behind that.
"""

from router.admin.declined import Declined
from router.admin.door import Door
from router.admin.service import Service
from router.admin.station import AdminRules, AdminStation

__all__ = ["AdminRules", "AdminStation", "Declined", "Door", "Service"]
