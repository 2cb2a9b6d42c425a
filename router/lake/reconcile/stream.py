"""Read the stream once more and compare it with bronze: the same messages, byte for byte, as far as the stream still has them."""

from __future__ import annotations

from collections.abc import Iterator, Set

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import Misconfigured
from router.lake.reconcile.checks import ReconcileCheck, format_spans, name_first
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.source.broker import Broker, read_facts
from router.lake.source.fetch import read_record_batches
from router.lake.source.offset import SequenceRange, StreamState
from router.lake.source.options import SourceOptions
from router.lake.warehouse import SequenceSpans

SEQUENCES_PER_STEP = 250_000  # sequences at a time
BRONZE_CHECK = "stream = bronze"
_SCHEMA = pa.schema(
    [
        pa.field("stream", pa.string(), nullable=False),
        pa.field("seq", pa.int64(), nullable=False),
        pa.field("subject", pa.string(), nullable=False),
        pa.field("time", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("headers", pa.map_(pa.string(), pa.string())),
        pa.field("data", pa.binary(), nullable=False),
    ]
)


class OpenStream(Struct, frozen=True):
    """An existing stream, and its state when it was opened."""

    options: SourceOptions
    facts: StreamState
    deleted: Set[int]  # single sequences between the first and the last

    def messages(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the messages that exist between these sequences, both inclusive, in order."""
        first, last = max(first, self.facts.first), min(last, self.facts.last)
        return read_record_batches(self.options, SequenceRange(first, last + 1, self.facts.created), _SCHEMA)


def open_stream(options: SourceOptions) -> OpenStream:
    """Read the state of a stream. Raises BrokerUnavailable, and Misconfigured if there is no such stream."""
    options = replace(options, fails_on_loss=False)
    facts = read_facts(options)
    with Broker(options) as broker:
        info = broker.run(broker.jetstream.ask(f"STREAM.INFO.{options.stream}", {"deleted_details": True}))
    return OpenStream(options, facts, frozenset(info["state"].get("deleted") or ()))


def check_stream(tables: WarehouseSnapshot, stream: OpenStream) -> ReconcileCheck:
    """Check that bronze holds every message from its first sequence to its last."""
    ingested = tables.warehouse.last_progress()
    if ingested is not None and ingested.created != stream.facts.created:
        raise Misconfigured(
            "--nats-url", f"this {stream.facts.stream} was made at {stream.facts.created}, the warehouse's at {ingested.created}"
        )
    sequences = tables.read_column("bronze", "seq", pa.int64())
    if not len(sequences):
        return ReconcileCheck(BRONZE_CHECK, True, "bronze is empty")
    first, last = max(pc.min(sequences).as_py(), stream.facts.first), pc.max(sequences).as_py()
    removed = tables.warehouse.removals.read_spans()
    messages, wrong = 0, []
    for start in range(first, last + 1, SEQUENCES_PER_STEP):
        stop = min(start + SEQUENCES_PER_STEP - 1, last)
        count, differing = _compare(tables, stream, start, stop, removed)
        messages += count
        wrong += differing
    figures = {"from": first, "to": last, "messages": messages, "differ": len(wrong)}
    return ReconcileCheck(
        BRONZE_CHECK, not wrong, f"{messages} messages, {first} to {last}, byte for byte", figures, name_first(format_spans(sorted(wrong)))
    )


def _compare(tables: WarehouseSnapshot, stream: OpenStream, first: int, last: int, removed: SequenceSpans) -> tuple[int, list[int]]:
    """Return how many messages the stream has here, but for the removed ones, and the sequences that differ between stream and bronze."""
    sent = pa.Table.from_batches(stream.messages(first, last), _SCHEMA).select(["seq", "data"]).combine_chunks()
    sent = sent.filter(pc.invert(removed.contain(sent["seq"])))
    kept = tables.read_between("bronze", ["seq", "data"], first, last)
    kept = (sent.slice(0, 0) if kept is None else kept).combine_chunks()
    alone = _find_absent(sent["seq"], kept["seq"]) + _find_absent(kept["seq"], sent["seq"])
    places = pc.index_in(sent["seq"], kept["seq"].combine_chunks())
    both = sent.filter(pc.is_valid(places))
    other = pc.not_equal(both["data"], kept["data"].take(places.drop_null()))
    return len(sent), alone + both["seq"].filter(other).to_pylist()


def _find_absent(some: pa.ChunkedArray, others: pa.ChunkedArray) -> list[int]:
    absent: list[int] = some.filter(pc.invert(pc.is_in(some, others.combine_chunks()))).to_pylist()
    return absent
