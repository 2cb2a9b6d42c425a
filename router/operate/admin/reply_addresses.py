"""The reply addresses that this router answers: a client's inbox, never one of its own. Others are
counted, and logged once a second.
"""

from __future__ import annotations

from collections.abc import Callable

from router.config import Settings
from router.delivery.wire.calls.request_server import ReplyAddresses
from router.delivery.wire.connection import Connection
from router.process.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)

SHARED_INBOX_PREFIX = "_INBOX"  # every client's, where no role has a prefix of its own
MAX_ADDRESS = 128  # characters of an address in the log: clients choose it


def build_reply_addresses(
    settings: Settings, connection: Connection, metrics: Metrics, place: str
) -> ReplyAddresses:
    """`place`: the part that answers, for the log."""
    return ReplyAddresses(
        settings.reply.prefixes, own_inboxes(settings, connection), note_refused(metrics, place)
    )


def own_inboxes(settings: Settings, connection: Connection) -> tuple[str, ...]:
    """The inboxes on which the router receives its own answers: this connection's, and the role's
    where it has a prefix of its own.
    """
    prefix = settings.nats.inbox_prefix
    role = () if prefix == SHARED_INBOX_PREFIX else (f"{prefix}.",)
    return (connection.own_inboxes, *role)


def note_refused(metrics: Metrics, place: str) -> Callable[[str], None]:
    """Builds the callback for refused addresses."""
    lines = LogRateLimit()

    def note(address: str) -> None:
        metrics.replies_refused.increment()
        if lines.allow(None):
            log.warning(
                events.REPLY_REFUSED,
                place=place,
                address=address[:MAX_ADDRESS],
                so_far=metrics.replies_refused.value,
            )

    return note
