"""Operators' services: request-reply on `beamline.router.v1.admin.*`, one queue group, found by the
NATS service protocol.

    request ── request_guard: reply address, limits, JSON, api_key ──> RequestFields ── a service's answer ──> {ok: true, …}
                 └────────────── ServiceError ──────────────────────────────┴────────────────────────> {ok: false, error}

`server` moves the messages: nats.micro, one task and one answer for each request. The services
themselves stand in their features (`extensions.instances`, `extensions.pipeline_services` and
others); `serve.admin` connects them. The server's permissions decide who may connect at all; the
api_key is checked after that.
"""

from router.operate.admin.request_guard import RequestGuard
from router.operate.admin.server import AdminServer
from router.operate.admin.service import Service, ServiceError

__all__ = ["AdminServer", "RequestGuard", "Service", "ServiceError"]
