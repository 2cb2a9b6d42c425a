"""One message in a batch: from its bytes to a row of the store."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from msgspec import Struct

from router.agents.envelope import Envelope, read_envelope
from router.agents.rows import NewEvent, OutgoingRow
from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.malformed import Malformed
from router.core.message import Message
from router.core.outcome import VALIDATION_FAILED, Dead, Outcome

REPLAY_COUNT = "x-replay-count"


class BatchItem(Struct, gc=False):
    """One message in a batch. `message` None: it is resumed from the store."""

    message: Message | None
    envelope: Envelope
    place: int = 0
    attempt: int = 1
    outcome: Outcome | None = None
    outgoing: Sequence[OutgoingRow] = ()


def read_item(message: Message, max_bytes: int = MAX_PAYLOAD_BYTES) -> BatchItem | Dead:
    """Returns Dead for a message that can never be read."""
    try:
        return BatchItem(message, read_envelope(message, max_bytes))
    except Malformed as exc:
        return Dead(exc.as_fault(), VALIDATION_FAILED)


def split_by_key(items: list[BatchItem]) -> Iterator[list[BatchItem]]:
    """Split so that no part holds two messages of one key: the second one must find the result of the first."""
    while items:
        first: dict[str, BatchItem] = {}
        later = [item for item in items if first.setdefault(item.envelope.idempotency_key, item) is not item]
        yield list(first.values())
        items = later


def row_of(item: BatchItem) -> NewEvent:
    """The row that is stored of it."""
    message = item.message
    assert message is not None  # a resumed item is in the store already  # noqa: S101
    return NewEvent(item.place, item.envelope.idempotency_key, message.stream, message.sequence, message.subject, item.envelope.canonical)


def is_replay(message: Message | None) -> bool:
    """Whether an operator sent it again, out of the dead letters."""
    return message is not None and REPLAY_COUNT in message.headers
