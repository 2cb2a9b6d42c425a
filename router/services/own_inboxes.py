"""The inboxes on which the router receives its own answers: it never answers a request there."""

from __future__ import annotations

from router.config import Settings
from router.delivery.connection import Connection

SHARED_INBOX_PREFIX = "_INBOX"  # every client's, where no role has a prefix of its own


def own_inboxes(settings: Settings, connection: Connection) -> tuple[str, ...]:
    """Prefixes of addresses: this connection's, and the role's where it has one of its own (`nats.inbox_prefix`)."""
    prefix = settings.nats.inbox_prefix
    role = () if prefix == SHARED_INBOX_PREFIX else (f"{prefix}.",)
    return (connection.own_inboxes, *role)
