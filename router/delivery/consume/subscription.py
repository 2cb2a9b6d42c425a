"""A subscription: a durable consumer, its handler and its options. It tells delivery everything
about the messages, and its observer what became of them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence, Sized
from typing import Protocol

from msgspec import Struct

from router.core.fair_queue import NO_WEIGHTS
from router.core.message import Effect, Message, Reply
from router.core.outcome import Fault, Handler, Outcome, PublishAck
from router.process.observability import events, logs

ACK = b"+ACK"
IN_PROGRESS = b"+WPI"

# What became of a message whose effects a stream refused.
WAITING = "waiting"  # in flight, until there is room
SENT_BACK = "sent_back"  # NAKed; it spends no attempt
DECLINED = "declined"  # its requester was answered `overloaded`
# a dead letter was made of it, and its requester was answered `cannot_be_stored`
REFUSED = "refused"
# its requester was answered with the failure; no dead letter is stored
DEAD_LETTER_OMITTED = "dead_letter_omitted"


class ConsumerOptions(Struct, frozen=True, kw_only=True):
    """How the durable is consumed. Durations are seconds."""

    max_attempts: int = 3
    backoff: tuple[float, ...] = (1.0, 2.0, 4.0)
    ack_wait: float = 30.0  # the server's; in-progress signals go out at a quarter of it
    prefetch: int = 512  # messages pulled and not yet settled, at most
    # of it: pulled only while handlers end at once, because a message that waits here could be
    # handled elsewhere
    prefetch_ahead: int = 0
    # asked for and not yet delivered, about: a single message may be larger
    prefetch_bytes: int = 8 * 1024 * 1024
    # NAKed messages that are to come again, at most: they count against the server's
    # max_ack_pending
    max_delayed: int = 5000
    slots: int = 64  # waiting handlers (awaitables) at once
    # True: messages in a slot do not count against the prefetch
    slots_beside_prefetch: bool = False
    handler_timeout: float = 300.0  # a handler that hangs is cancelled and its attempt is spent
    pull_expires: float = 30.0
    heartbeat: float = 1.0  # at most half of pull_expires; two missed: ask the server
    publish_timeout: float = 5.0
    store_retry: float = 1.0  # effects that could not be stored are published again this often
    # messages that may wait for room in a full stream; 0 = the subscription pauses instead
    max_waiting: int = 0
    # above `max_waiting`: True: the subscription pauses; False: messages are sent back, or declined
    pauses_above: bool = False
    # True: what a handler has done is not sent back, above the places it pauses
    keeps_work: bool = False
    # True: a message that needs an unavailable bucket waits, the others go on; False: the
    # subscription pauses
    waits_alone: bool = False
    # the same where the bucket is missing or sealed: no election ends that
    waits_alone_for_refusal: bool = False
    # a requester whose message waits for what refuses until an operator mends it is answered after
    # this
    patience: float = 5.0
    # further messages are redelivered after this, or their requesters are told to ask again after
    # it
    full_retry: float = 10.0


class Observer(Protocol):
    """Counts and logs what a consumer does. Called on the loop, `on_stored` and `on_settled` once a
    message: quick, and it never raises.
    """

    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None:
        """Its effects have their publish acks; the message is not acked yet."""

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None:
        """After the ack. A final Retry was the last attempt; its dead letter is stored, unless it
        was omitted or dead letters are off.
        """

    def on_unexpected_redelivery(self, message: Message) -> None:
        """The server redelivered a message that this process did not NAK: its ack wait expired, or
        another process died.
        """

    def on_dead_letter_unstored(self, message: Message, cause: str) -> None:
        """The message's dead letter has no publish ack: the message waits if the stream is full,
        else the subscription pauses.
        """

    def on_flow(self, cause: str | None) -> None:
        """The subscription paused for a cause, or (None) resumed."""

    def on_server_pause(self, cause: str | None) -> None:
        """The server holds the durable back, by an operator's word, or (None) no longer."""

    def on_storage(self, cause: str | None) -> None:
        """Messages wait for room in a full stream, for a cause, or (None) no longer. The others go
        on.
        """

    def on_outage(self, cause: str | None) -> None:
        """Messages wait for an unavailable bucket, for a cause, or (None) no longer. The others go
        on.
        """

    def on_storage_refused(self, message: Message, subject: str, what: str) -> None:
        """A full stream refused an effect on `subject`, or what it needs is unavailable; `what`
        became of its message: `WAITING`, …
        """

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        """A handler raised an error that is not a RouterError."""


class NullObserver:
    def on_stored(self, message: Message, publish_acks: Sequence[PublishAck]) -> None: ...

    def on_settled(self, message: Message, outcome: Outcome, is_final: bool) -> None: ...

    def on_unexpected_redelivery(self, message: Message) -> None: ...

    def on_dead_letter_unstored(self, message: Message, cause: str) -> None: ...

    def on_flow(self, cause: str | None) -> None: ...

    def on_server_pause(self, cause: str | None) -> None: ...

    def on_storage(self, cause: str | None) -> None: ...

    def on_outage(self, cause: str | None) -> None: ...

    def on_storage_refused(self, message: Message, subject: str, what: str) -> None: ...

    def on_handler_error(self, message: Message, exc: BaseException) -> None: ...


SILENT: Observer = NullObserver()


class StoredCopies(Protocol):
    """Which stored copies need only an ack (`RepliedRequests`)."""

    @property
    def by_hash(self) -> Sized: ...

    @property
    def by_sequence(self) -> Container[int]: ...

    def take(self, message: Message) -> bool: ...


def tenant_in_header(message: Message) -> str:
    return message.headers.get("tenant_id", "")


class TurnRules(Struct, frozen=True):
    """Who takes turns as one, by the header alone: to read a large body for its tenant is a good
    part of what it costs. And whose turns are longer.
    """

    turn_of: Callable[[Message], str] = tenant_in_header
    weights: Mapping[str, int] = NO_WEIGHTS


class Subscription(Struct, frozen=True, kw_only=True):
    """One durable and how its messages are handled.

    `dead_letter_ack` is sent once the dead letter is stored: +ACK (BeamLine) or +TERM (SR,
    MeshForge). `subject` replaces the messages' own subject, where the stream holds them under a
    partition's.
    """

    stream: str
    durable: str
    options: ConsumerOptions
    handle: Handler
    # None: dead letters are switched off
    dead_letter: Callable[[Message, str, Fault], Effect | None]
    # the requester's answer when the message is given up
    failure_reply: Callable[[Message, Fault], Reply | None] = lambda *_: None
    subject: str | None = None
    dead_letter_ack: bytes = ACK
    is_allowed: Callable[[str], bool] | None = None  # the subject allow list; None = every subject
    observer: Observer = SILENT
    replied_requests: StoredCopies | None = (
        None  # None: requests are never answered from their passing copy
    )
    tenant_of: Callable[[Message], str] = tenant_in_header  # whose share a waiting message takes
    turns: TurnRules = TurnRules()  # of large messages
    # the answer with seconds to wait; None: there is no requester
    overloaded: Callable[[Message, float, Fault], Reply] | None = None
    # seconds for which `KnownEffects` keeps publish acks; 0 = effects are always published
    publish_acks_kept: float = 0.0
    # an effect's stream, by its subject, for batches; None = no batches
    stream_of: Callable[[str], str | None] | None = None


# -- Logs what a person should know of a consumer: pauses, full streams, handlers that raise. A
# message that succeeds writes no line.


log = logs.logger(__name__)


class LoggingObserver(NullObserver):
    """What the observers of all consumers share."""

    def __init__(self, durable: str) -> None:
        self._durable = durable

    def on_flow(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.CONSUMER_PAUSED, consumer=self._durable, cause=cause)
        else:
            log.info(events.CONSUMER_RESUMED, consumer=self._durable)

    def on_server_pause(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.CONSUMER_PAUSED_BY_SERVER, consumer=self._durable, cause=cause)
        else:
            log.info(events.CONSUMER_RESUMED_BY_SERVER, consumer=self._durable)

    def on_storage(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.STORAGE_REFUSED, consumer=self._durable, cause=cause)
        else:
            log.info(events.STORAGE_TAKES, consumer=self._durable)

    def on_outage(self, cause: str | None) -> None:
        if cause is not None:
            log.error(events.REQUESTS_WAIT, consumer=self._durable, cause=cause)
        else:
            log.info(events.REQUESTS_GO_ON, consumer=self._durable)

    def on_handler_error(self, message: Message, exc: BaseException) -> None:
        log.error(
            events.HANDLER_FAILED, consumer=self._durable, sequence=message.sequence, exc_info=exc
        )
