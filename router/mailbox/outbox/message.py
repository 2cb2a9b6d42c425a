"""An outbox event as it travels: subject, headers, body (docs/reference/requirements.md#x28).

subject   {context}.event.{event_type}.v{event_version}
headers   Nats-Msg-Id = the event's id; Event-Type, Event-Version, Occurred-At, Correlation-Id,
          Causation-Id
body      the payload alone, as the database tells it
"""

from __future__ import annotations

from functools import lru_cache

from router.core.errors import Poison
from router.core.message import Effect
from router.mailbox.entities import EventSubject, NatsMsgId, OutboxEvent, json_text
from router.mailbox.policies import VALID_OUTBOX, InvalidEntity

ROOM_FOR_HEADERS = 1024  # bytes; ours are shorter


class EventEncoder:
    """Encodes the events of one context. `max_payload`: bytes that the connection accepts; `most`:
    bytes of them that a body may have.
    """

    def __init__(self, context: str, max_payload: int) -> None:
        self._context = context
        self.most = max_payload - ROOM_FOR_HEADERS
        self._subject = lru_cache(maxsize=1024)(_subject)

    def effect_of(self, event: OutboxEvent) -> Effect:
        """Raises Poison if this event can never be published as it is."""
        data = json_text(event.payload)
        if len(data) > self.most:
            raise Poison(f"payload of {len(data)} bytes, the connection takes {self.most}")
        subject = self._subject(self._context, event.event_type, event.event_version)
        return Effect(subject, data, NatsMsgId.from_event(event).value, _headers(event))


def _subject(context: str, event_type: str, event_version: int) -> str:
    try:
        return EventSubject.from_parts(context, event_type, event_version).value
    except ValueError as exc:
        raise InvalidEntity(
            VALID_OUTBOX, f"event_type and event_version make no subject: it {exc}"
        ) from exc


def _headers(event: OutboxEvent) -> dict[str, str]:
    headers = {"Event-Type": event.event_type, "Event-Version": str(event.event_version)}
    if event.occurred_at is not None:
        # our sessions use UTC
        headers["Occurred-At"] = event.occurred_at.isoformat()[: -len("+00:00")] + "Z"
    if event.correlation_id is not None:
        headers["Correlation-Id"] = str(event.correlation_id)
    if event.causation_id is not None:
        headers["Causation-Id"] = str(event.causation_id)
    return headers
