"""What a handler may answer.

A handler never touches the broker. It returns one of four values, and
`delivery.consume.settlement` turns that value into exactly one ack:

    Done    effects are stored first, then the reply    -> +ACK
              and before that what follows from their publish acks (`then`)
    Retry   not now; may use up an attempt              -> -NAK with delay
    Dead    never here; a dead letter is stored first   -> the consumer's dead_letter_ack
    Hold    send nothing; redelivered after ack_wait    -> no ack

Handlers do not count attempts: delivery turns the last allowed Retry into a dead
letter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence

from msgspec import Struct

from router.core.message import Effect, Message, Reply

VALIDATION_FAILED = "validation_failed"
MAXDELIVER_EXHAUSTED = "maxdeliver_exhausted"
PROCESSING_ERROR = "processing_error"


class Fault(Struct, frozen=True):
    """Why it failed: the content of the dead letter and of the error reply.

    `code` is a dead letter's validation code or an answer's error code
    (docs/reference/contracts.md#errors), `field` the place in the RouteRequest, `stage` the step of
    validation that refused it. `ids`: of the message, by name, where its reader has them all;
    None: the dead letter's writer reads them.
    """

    code: str
    message: str
    field: str | None = None
    stage: str | None = None
    ids: Mapping[str, str] | None = None


class PublishAck(Struct, frozen=True, gc=False):
    """A publish ack: where an effect is stored. `is_duplicate`: it was stored before."""

    id: str
    stream: str
    sequence: int
    is_duplicate: bool


# What follows from the publish acks: None, or one more Done, whose effects are stored before the
# reply too; its reply is not sent.
Then = Callable[[Sequence[PublishAck]], "Awaitable[Done | None] | Done | None"]

# The handler's own store: after the publish acks, before the ack. One that stores in memory alone
# is done when it returns None.
Commit = Callable[[Sequence[PublishAck]], Awaitable[None] | None]


class Done(Struct, frozen=True, gc=False):
    """It was handled: `effects` are stored, `commit` runs, `then` tells what follows, the reply is
    sent, then the message is acked.
    """

    effects: tuple[Effect, ...] = ()
    reply: Reply | None = None
    commit: Commit | None = None
    then: Then | None = None


class Retry(Struct, frozen=True):
    """Not now. `delay` in seconds, None = the consumer's backoff; `uses_attempt` False: the message
    did not cause it.
    """

    fault: Fault
    delay: float | None = None
    uses_attempt: bool = True


class Dead(Struct, frozen=True):
    """Never here: a dead letter with this `reason` is stored, then the dead_letter_ack is sent."""

    fault: Fault
    reason: str = VALIDATION_FAILED
    reply: Reply | None = None  # None: the consumer's failure_reply
    commit: Commit | None = None


class Hold(Struct, frozen=True):
    """Neither ACK nor NAK: the server redelivers after the ack wait (POL-047-007)."""

    fault: Fault


Outcome = Done | Retry | Dead | Hold
# a value is fastest, then a Deferred; any other awaitable takes a slot
Handler = Callable[[Message], Outcome | Awaitable[Outcome]]
