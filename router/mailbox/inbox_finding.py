"""What `router doctor` finds of an inbox: how long its messages wait if its process is killed.

In its own file, so that commands that only query need no database driver.
"""

from __future__ import annotations

from router.config import Settings
from router.core.errors import BrokerUnavailable
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import NANOS_PER_S
from router.mailbox.inbox.rules import check_names, durable_name_of
from router.operate.doctor import Finding
from router.operate.doctor.facts import ok, span, warn

LONG_S = 30.0
REMEDY = (
    "set inbox.ack_wait_ms to 15000 and delete the durable: rows record what was processed, "
    "in-progress signals keep what is in flight"
)


async def examine_inbox(jetstream: JetStream, settings: Settings) -> list[Finding]:
    """One finding, or none: the settings name no database, or there is no such durable."""
    check_names(settings)
    stream, durable = settings.inbox.events_stream, durable_name_of(settings)
    try:
        info = (
            await jetstream.consumer(stream, durable) if settings.mailbox.dsn is not None else None
        )
    except BrokerUnavailable:  # this role has no permission for it
        return []
    if info is None:
        return []
    check, wait_s = f"inbox {durable}", info["config"]["ack_wait"] / NANOS_PER_S
    in_flight = f"{info['num_ack_pending']} of {info['config']['max_ack_pending']} in flight"
    found = f"{in_flight}; if its process is killed, they are redelivered after {span(wait_s)}"
    return [warn(check, found, REMEDY) if wait_s > LONG_S else ok(check, found)]
