"""What a handler may answer.

A handler never touches the broker. It returns one of four values, and
`delivery.settlement` turns that value into exactly one stamp:

    Done    effects stored first, then the reply      -> +ACK
    Retry   not now; may spend an attempt             -> -NAK with delay
    Dead    never here; a letter is stored first      -> the lane's last word
    Hold    say nothing; ack_wait speaks              -> no stamp

Counting attempts is not a handler's job: `judge` turns the last allowed Retry
into a letter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct

from router.message import Effect, Message, Reply

VALIDATION_FAILED = "validation_failed"
MAXDELIVER_EXHAUSTED = "maxdeliver_exhausted"
PROCESSING_ERROR = "processing_error"


class Fault(Struct, frozen=True):
    """Why it failed: becomes the letter and the error reply.

    `code` is a letter's validation code or an answer's error code (docs/contracts.md#errors), `field` the place
    in the RouteRequest, `stage` the step of validation that refused it.
    """

    code: str
    message: str
    field: str | None = None
    stage: str | None = None


class Receipt(Struct, frozen=True, gc=False):
    """A PubAck: where an effect stands. `is_duplicate`: it stood there before."""

    id: str
    stream: str
    sequence: int
    is_duplicate: bool


Commit = Callable[[Sequence[Receipt]], Awaitable[None]]  # the handler's own store, between evidence and stamp


class Done(Struct, frozen=True, gc=False):
    """It was handled: `effects` are stored, `commit` runs, the reply is sent, then it is acknowledged."""

    effects: tuple[Effect, ...] = ()
    reply: Reply | None = None
    commit: Commit | None = None


class Retry(Struct, frozen=True):
    """Not now. `delay` in seconds, None = the lane's backoff; `uses_attempt` False: it was not the message's fault."""

    fault: Fault
    delay: float | None = None
    uses_attempt: bool = True


class Dead(Struct, frozen=True):
    """Never here: a letter with this `reason` is stored, then the lane's last word is said."""

    fault: Fault
    reason: str = VALIDATION_FAILED
    reply: Reply | None = None  # what the requester hears; None: the lane's apology
    commit: Commit | None = None


class Hold(Struct, frozen=True):
    """Neither ack nor nak: the server's ack wait speaks (POL-047-007)."""

    fault: Fault


Outcome = Done | Retry | Dead | Hold
Handler = Callable[[Message], Outcome | Awaitable[Outcome]]  # a value is the fast path, a Later nearly so; any other awaitable takes a slot
