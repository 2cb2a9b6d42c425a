"""Between the inbox and its handlers: what arrived, what a handler says of it, and the port behind which one is left alone.

    Arrival --> Treatment.begin --> Answer --> `process_inbox`

`http_handler` asks a service, `transactional_strategy` runs a function of yours in the row's own transaction; both are told arrivals
whose receipt is committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum, StrEnum
from typing import Protocol

from msgspec import Struct

from router.deferred import Deferred
from router.errors import BrokerUnavailable
from router.mailbox.inbox.event import InboxEvent
from router.message import Message
from router.outcome import Outcome


class HandlerResult(StrEnum):
    """What became of a message; the policies POL-047-005…007 say what follows (`process_inbox`)."""

    PROCESSED = "processed"  # 200: mark, ack
    ALREADY_PROCESSED = "already_processed"  # 409: mark, ack
    POISON = "poison"  # 422: dead letter, ack
    TRANSIENT = "transient"  # 5xx, timeout: no ack


class InboxDelivery(Struct, eq=False):
    """One delivery on its way: `later` is what delivery waits for, `attempts` the row's, once its receipt is committed."""

    message: Message
    event: InboxEvent
    later: Deferred[Outcome]
    attempts: int = 0


class Blame(Enum):
    """Whose fault it is that an event is not served."""

    EVENT = "event"  # or its handler's own, which the policies treat alike
    SERVICE = "service"  # it serves none at present
    UNKNOWN = "unknown"  # whether others are served will show


class HandlerAnswer(Struct, frozen=True, gc=False):
    """A result, and what is written down of it: a status, or what `failure_text` keeps of an error."""

    result: HandlerResult
    detail: str = ""
    blame: Blame = Blame.EVENT

    @property
    def is_useful(self) -> bool:
        """Whether its handler is there and understood the event."""
        return self.result is not HandlerResult.TRANSIENT


class InboxUnavailable(BrokerUnavailable):
    """What the inbox stands on (its database, its handler) is away: the lane pauses until it is back, and nothing is spent."""

    code = "inbox_away"


class HandlerStrategy(Protocol):
    """How arrivals get their answers."""

    @property
    def unavailable(self) -> InboxUnavailable | None:
        """Why nobody is to be asked at present."""

    @property
    def linger_s(self) -> float:
        """How long receipts are gathered before they are written."""

    def start(self, deliveries: Sequence[InboxDelivery]) -> None:
        """Each of them is concluded, once, in its own time."""


class HandlerPermit(Protocol):
    """The right to ask once. One of these is called, once."""

    def record_success(self, latency_ms: float) -> None:
        """It answered as it should, whatever it said of the event."""

    def record_failure(self) -> None:
        """It did not."""

    def release(self) -> None:
        """Nobody waited for it."""


class RemoteBreaker(Protocol):
    """Who fails too often is left alone for a while."""

    @property
    def is_open(self) -> bool:
        """Nobody may ask at present."""

    def acquire(self, seconds: float) -> HandlerPermit | None:
        """For a call of at most so many seconds; None: not now."""


class NullRemoteBreaker:
    """Everybody may ask, always; a breaker and a permit in one."""

    is_open = False

    def acquire(self, seconds: float) -> HandlerPermit | None:
        return self

    def record_success(self, latency_ms: float) -> None: ...

    def record_failure(self) -> None: ...

    def release(self) -> None: ...
