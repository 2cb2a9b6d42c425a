"""List a store's events for people: the newest first, with their progress."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
from msgspec import Struct
from msgspec.structs import asdict

from router.agents import schema
from router.agents.database import open_read_only
from router.contracts.exact_json import load_written
from router.core.errors import Misconfigured

EVENT_STATUSES = (schema.RECEIVED, schema.APPLIED, schema.DEAD)
_QUERY = (
    "SELECT place, stream, stream_seq, subject, idempotency_key, status, attempts, content,"
    " (SELECT count(stored_seq) FROM outgoing WHERE outgoing.place = events.place),"
    " (SELECT count(*) - count(stored_seq) FROM outgoing WHERE outgoing.place = events.place)"
    " FROM events WHERE (:status IS NULL OR status = :status) AND (:key IS NULL OR "
    "idempotency_key = :key) ORDER BY place DESC LIMIT :limit"
)


class EventFilter(Struct, frozen=True):
    """None: any."""

    status: str | None = None
    key: str | None = None


class ListedEvent(Struct, frozen=True):
    """One event. `sent`, `unsent`: its outgoing messages with and without a publish ack."""

    place: int
    stream: str
    stream_seq: int
    subject: str
    key: str
    status: str
    attempts: int
    content: bytes
    sent: int
    unsent: int

    @property
    def type(self) -> str:
        return str(orjson.loads(self.content)["type"])

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "content": load_written(self.content)}


def list_newest_events(path: Path, wanted: EventFilter, limit: int) -> list[ListedEvent]:
    """Raises Misconfigured, StoreFailed."""
    if wanted.status not in (None, *EVENT_STATUSES):
        raise Misconfigured("status", f"should be one of {', '.join(EVENT_STATUSES)}")
    with open_read_only(path) as db:
        return [
            ListedEvent(*row)
            for row in db.execute(
                _QUERY, {"status": wanted.status, "key": wanted.key, "limit": limit}
            )
        ]
