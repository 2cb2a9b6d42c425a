"""The policies of docs/reference/requirements.md#sd-policies as data: id, what it applies to, its
rule word for word, its error code; and the checks in code.

Where each is kept:

    POL-047-001        `outbox.add` refuses
    POL-047-002        the relay publishes no event before its time; a minute ahead or more, the
                       table's CHECK refuses
    POL-047-003        the primary key; a conflict means a duplicate
    POL-047-004        both times are the database's own clock
    POL-047-005…007    what a handler's answer means: `HandlerResult`
"""

from __future__ import annotations

from msgspec import Struct

from router.core.errors import Poison, RouterError, Transient
from router.mailbox.entities import EventSubject, OutboxEvent


class MailboxPolicy(Struct, frozen=True):
    """One line of the specification's tables. `error_code` None where it says N/A."""

    id: str
    applies_to: str
    rule: str
    error_code: str | None
    satisfies: str


VALID_OUTBOX = MailboxPolicy(
    "POL-047-001",
    "OutboxEvent",
    "outbox.id IS NOT NULL AND outbox.event_type IS NOT NULL",
    "INVALID_OUTBOX",
    "REQ-050",
)
NOT_FROM_THE_FUTURE = MailboxPolicy(
    "POL-047-002", "OutboxEvent", "outbox.occurred_at <= NOW()", "FUTURE_EVENT", "REQ-050"
)
UNIQUE_MESSAGE = MailboxPolicy(
    "POL-047-003", "InboxMessage", "inbox.message_id IS UNIQUE", "DUPLICATE_MESSAGE", "REQ-051"
)
ORDERED_TIMES = MailboxPolicy(
    "POL-047-004",
    "InboxMessage",
    "inbox.processed_at IS NULL OR inbox.processed_at >= inbox.received_at",
    "INVALID_TIMESTAMP",
    "REQ-051",
)
ACK_HANDLED = MailboxPolicy(
    "POL-047-005",
    "InboxConsumer",
    "handler_response = 200 OR handler_response = 409 → ACK",
    None,
    "REQ-051",
)
ACK_POISON = MailboxPolicy(
    "POL-047-006", "InboxConsumer", "handler_response = 422 → ACK + DLQ", None, "REQ-053"
)
NO_ACK = MailboxPolicy(
    "POL-047-007", "InboxConsumer", "handler_response = 5xx OR timeout → NO ACK", None, "REQ-052"
)

POLICIES = (
    VALID_OUTBOX,
    NOT_FROM_THE_FUTURE,
    UNIQUE_MESSAGE,
    ORDERED_TIMES,
    ACK_HANDLED,
    ACK_POISON,
    NO_ACK,
)


class PolicyViolated(RouterError):
    """An entity breaks a policy; `code` is the policy's error code."""

    def __init__(self, policy: MailboxPolicy, message: str) -> None:
        super().__init__(f"{policy.error_code} ({policy.id}): {message}")
        self.policy = policy
        self.code = policy.error_code or policy.id


class InvalidEntity(PolicyViolated, Poison):
    """The entity breaks the policy at every try."""


class FutureEvent(PolicyViolated, Transient):
    """The event's time has not come: the same event may be added later."""


MAX_NAME_LENGTH = 512


def check_outbox(event: OutboxEvent) -> None:
    """Raises PolicyViolated INVALID_OUTBOX."""
    if not (event.id and event.event_type and event.aggregate_type and event.aggregate_id):
        raise InvalidEntity(
            VALID_OUTBOX, "id, event_type, aggregate_type and aggregate_id must be there"
        )
    if not (_is_name(event.aggregate_type) and _is_name(event.aggregate_id)):
        raise InvalidEntity(
            VALID_OUTBOX,
            (
                f"aggregate_type and aggregate_id must have at most {MAX_NAME_LENGTH} "
                "characters, none U+0000"
            ),
        )
    try:
        EventSubject.from_parts("context", event.event_type, event.event_version)
    except ValueError as exc:
        raise InvalidEntity(
            VALID_OUTBOX, f"event_type and event_version make no subject: it {exc}"
        ) from exc


def _is_name(text: str) -> bool:
    """Whether a column of PostgreSQL can hold the text: half a surrogate pair is no UTF-8."""
    return (
        len(text) <= MAX_NAME_LENGTH
        and "\x00" not in text
        and not any("\ud800" <= character <= "\udfff" for character in text)
    )
