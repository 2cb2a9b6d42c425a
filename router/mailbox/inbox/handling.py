"""Between the inbox and its handlers: deliveries, answers, and the breaker that keeps calls from a
failing handler.

    InboxDelivery --> HandlerStrategy.start --> HandlerAnswer --> `process`

`http_handler` calls a service, `transactional_strategy` runs a function of yours in the row's own
transaction; both get deliveries whose row is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Protocol

from msgspec import Struct

from router.core.deferred import HoldableDeferred
from router.core.errors import BrokerUnavailable
from router.core.message import Message
from router.core.outcome import Outcome
from router.mailbox.inbox.event import InboxEvent


class HandlerResult(StrEnum):
    """The result of a message; the policies POL-047-005…007 say what follows (`process`)."""

    PROCESSED = "processed"  # 200: mark, ack
    ALREADY_PROCESSED = "already_processed"  # 409: mark, ack
    POISON = "poison"  # 422: dead letter, ack
    TRANSIENT = "transient"  # 5xx, timeout: no ack


class InboxDelivery(Struct, eq=False):
    """One delivery. Delivery waits for `later`; `attempts` is the row's, once that is committed,
    and counts this one.

    `may_be_held`: its message stays in flight while its service does not serve it. `was_begun`: its
    handler has seen the event.
    """

    message: Message
    event: InboxEvent
    later: HoldableDeferred[Outcome]
    may_be_held: bool = True
    attempts: int = 0
    was_begun: bool = False
    is_taken_back: bool = False  # this attempt, in the row


class Blame(Enum):
    """The cause of an event that is not served."""

    EVENT = "event"  # or its handler, which the policies treat alike
    SERVICE = "service"  # it serves no event now
    UNKNOWN = "unknown"  # whether others are served will show


class HandlerAnswer(Struct, frozen=True, gc=False):
    """A result, and the text that is kept of it: a status, or the error as `describe_failure` writes
    it.
    """

    result: HandlerResult
    detail: str = ""
    blame: Blame = Blame.EVENT

    @property
    def is_useful(self) -> bool:
        """Whether the handler is there and understood the event."""
        return self.result is not HandlerResult.TRANSIENT


class InboxUnavailable(BrokerUnavailable):
    """The database or the handler of the inbox is unavailable: the consumer pauses until it is
    back, and no delivery is spent.
    """

    code = "inbox_away"


class HandlerStrategy(Protocol):
    """How deliveries get their answers."""

    @property
    def unavailable(self) -> InboxUnavailable | None:
        """Why the handler cannot be called now."""

    @property
    def linger_s(self) -> float:
        """How long deliveries are collected before their rows are written."""

    def start(self, deliveries: Sequence[InboxDelivery]) -> None:
        """Start each delivery; each is concluded once, at its own time."""


class HandlerPermit(Protocol):
    """The right to make one call. The caller ends it with exactly one of these methods."""

    def record_success(self, latency_ms: float) -> None:
        """The handler answered as it should, whatever it said of the event."""

    def record_failure(self) -> None:
        """The handler did not answer as it should."""

    def release(self) -> None:
        """The call ended without an answer that counts."""


class RemoteBreaker(Protocol):
    """Stops calls to a handler that fails too often, for a while."""

    @property
    def is_open(self) -> bool:
        """Whether no call is allowed now."""

    def acquire(self, seconds: float) -> HandlerPermit | None:
        """A permit for a call of at most so many seconds; None: not now."""


class NullRemoteBreaker:
    """Allows every call; a breaker and a permit in one."""

    is_open = False

    def acquire(self, seconds: float) -> HandlerPermit | None:
        return self

    def record_success(self, latency_ms: float) -> None: ...

    def record_failure(self) -> None: ...

    def release(self) -> None: ...
