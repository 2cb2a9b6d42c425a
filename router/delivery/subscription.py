"""A subscription: what one durable consumer handles, and how. Delivery gets everything about the messages from it."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from typing import Protocol

from msgspec import Struct

from router.core.message import Effect, Message, Reply
from router.core.outcome import Fault, Handler, Outcome, PublishAck

ACK = b"+ACK"
IN_PROGRESS = b"+WPI"

# What became of a message whose effects a stream refused for want of room.
WAITING = "waiting"  # in hand, until there is room
SENT_BACK = "sent_back"  # it comes again later, and spends no attempt
DECLINED = "declined"  # its requester was told `overloaded`
DEAD_LETTER_OMITTED = "dead_letter_omitted"  # its requester was told of the failure; no dead letter is stored


class ConsumerOptions(Struct, frozen=True, kw_only=True):
    """How a durable is driven. Durations are seconds."""

    max_attempts: int = 3
    backoff: tuple[float, ...] = (1.0, 2.0, 4.0)
    ack_wait: float = 30.0  # the server's; in-progress signals go out at a quarter of it
    prefetch: int = 512  # messages asked for and not yet started, at most
    prefetch_bytes: int = 8 * 1024 * 1024  # asked for and not yet come, about: a single message may be larger
    max_delayed: int = 5000  # messages sent away for a while, at most: they count against the server's max_ack_pending
    slots: int = 64  # handlers that wait (awaitables) at once
    slots_beside_prefetch: bool = False  # True: what is in a slot leaves its place in the prefetch to the next message
    handler_timeout: float = 300.0  # a handler that hangs is cancelled and its attempt is spent
    pull_expires: float = 30.0
    heartbeat: float = 5.0  # at most half of pull_expires; two missed = ask again, four = reconnect
    publish_timeout: float = 5.0
    store_retry: float = 1.0  # what could not be stored is tried again this often
    max_waiting: int = 0  # messages in hand that may wait for a stream without room; 0 = the subscription pauses instead
    full_retry: float = 10.0  # when more would wait, they come again after this, or their requesters are told to


class Observer(Protocol):
    """Counts and logs what a consumer does. Called on the loop, `on_stored` and `on_settled` once a message: quick, and it never raises."""

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None:
        """Its effects have their PubAcks; the message is not acked yet."""

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        """After the ack. A final Retry was the last attempt, and its dead letter is stored."""

    def on_unexpected_redelivery(self, message: Message) -> None:
        """The server redelivered a message that this process did not NAK: its ack wait expired, or another process died."""

    def on_dead_letter_refused(self, message: Message, cause: str) -> None:
        """A dead letter could not be stored: the subscription pauses, or, where only its stream is full, this message waits."""

    def on_flow(self, cause: str | None) -> None:
        """The subscription paused for a cause, or (None) resumed."""

    def on_storage(self, cause: str | None) -> None:
        """Messages began to wait for a stream without room, for a cause, or (None) none waits any more. The others go on."""

    def on_storage_refused(self, message: Message, subject: str, what: str) -> None:
        """A stream without room refused an effect on `subject`; `what` became of its message (`WAITING`, `SENT_BACK`, …)."""

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        """A handler raised an error that is none of ours."""


class NullObserver:
    """An observer that does nothing."""

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None: ...

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None: ...

    def on_unexpected_redelivery(self, message: Message) -> None: ...

    def on_dead_letter_refused(self, message: Message, cause: str) -> None: ...

    def on_flow(self, cause: str | None) -> None: ...

    def on_storage(self, cause: str | None) -> None: ...

    def on_storage_refused(self, message: Message, subject: str, what: str) -> None: ...

    def on_handler_error(self, message: Message, exc: BaseException) -> None: ...


SILENT: Observer = NullObserver()


class StoredCopies(Protocol):
    """Which stored copies need nothing but their ack (`live.AnsweredRequests`)."""

    @property
    def counts(self) -> Sized: ...

    def take(self, message: Message) -> bool: ...


def tenant_in_header(message: Message) -> str:
    return message.headers.get("tenant_id", "")


class Subscription(Struct, frozen=True, kw_only=True):
    """One durable and what its messages mean.

    `dead_letter_ack` is sent once the dead letter is stored: +ACK (BeamLine) or +TERM (SR, MeshForge).

    `subject`: what its messages are said to have come on, where the stream holds them under another (a partition's).
    """

    stream: str
    durable: str
    options: ConsumerOptions
    handle: Handler
    dead_letter: Callable[[Message, str, Fault], Effect | None]  # None: dead letters are switched off
    failure_reply: Callable[[Message, Fault], Reply | None] = lambda *_: None  # what a requester gets when we give up; None: there is none
    subject: str | None = None
    dead_letter_ack: bytes = ACK
    is_allowed: Callable[[str], bool] | None = None  # the subject allow list; None = every subject
    observer: Observer = SILENT
    live_marks: StoredCopies | None = None  # None: requests are never answered from their live copy
    tenant_of: Callable[[Message], str] = tenant_in_header  # whose share it takes of what is scarce
    overloaded: Callable[[Message, float], Reply] | None = None  # what a requester hears then, with seconds; None: there is no requester
    publish_acks_kept: float = 0.0  # seconds in which an effect with an owner that is known to be stored is not published again; 0 = it is
    stream_of: Callable[[str], str | None] | None = None  # an effect's stream, by its subject, for batches; None = no batches
