"""One message on its way through a batch: from its bytes to a row of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.malformed import Malformed
from router.message import Message
from router.outcome import VALIDATION_FAILED, Dead, Outcome
from router.runtime.envelope import Envelope, read_envelope
from router.runtime.rows import Emitted, New

REPLAY_COUNT = "x-replay-count"


class Case(Struct, gc=False):
    """One message on its way through a batch. `message` None: it is resumed from the store."""

    message: Message | None
    envelope: Envelope
    place: int = 0
    attempt: int = 1
    outcome: Outcome | None = None
    emitted: Sequence[Emitted] = ()


def read_case(message: Message, max_bytes: int = MAX_PAYLOAD_BYTES) -> Case | Dead:
    """Dead: it can never be read."""
    try:
        return Case(message, read_envelope(message, max_bytes))
    except Malformed as exc:
        return Dead(exc.as_fault(), VALIDATION_FAILED)


def rounds(cases: list[Case]) -> Iterator[list[Case]]:
    """Two messages of one key are never in one round: the second is to find what became of the first."""
    while cases:
        first: dict[str, Case] = {}
        later = [case for case in cases if first.setdefault(case.envelope.idempotency_key, case) is not case]
        yield list(first.values())
        cases = later


def row_of(case: Case) -> New:
    """What is persisted of it."""
    message = case.message
    assert message is not None  # what is resumed stands in the store already  # noqa: S101
    return New(case.place, case.envelope.idempotency_key, message.stream, message.sequence, message.subject, case.envelope.canonical)


def is_replay(message: Message | None) -> bool:
    """Whether an operator sent it again, out of the dead letters."""
    return message is not None and REPLAY_COUNT in message.headers
