"""What a reconciliation reads: the stream once more, and the files of the warehouse as of one cut."""

from __future__ import annotations

from collections.abc import Iterator, Set

import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import Misconfigured
from router.lake.source.broker import Broker, read_facts
from router.lake.source.fetch import read_record_batches
from router.lake.source.offset import SequenceRange, StreamState
from router.lake.source.options import SourceOptions
from router.lake.warehouse import DataFile, Warehouse

# -- The files of a warehouse as of one cut: later commits do not disturb a reconciliation.


class WarehouseSnapshot(Struct, frozen=True):
    """A warehouse as of one cut."""

    warehouse: Warehouse
    as_of: int

    def list_files(self, table: str) -> list[DataFile]:
        return self.warehouse.files(table, self.as_of)


# -- A stream that is read once more, to be compared with the tables.


RANGE = 250_000  # sequences of a task
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

Ends = tuple[int, int]  # sequences, both inclusive


class OpenStream(Struct, frozen=True):
    """An existing stream, and its state when it was opened."""

    options: SourceOptions
    facts: StreamState
    deleted: Set[int]  # single sequences between the first and the last

    def messages(self, first: int, last: int) -> Iterator[pa.RecordBatch]:
        """Yield the messages that exist between these sequences, both inclusive, in order."""
        first, last = max(first, self.facts.first), min(last, self.facts.last)
        return read_record_batches(
            self.options, SequenceRange(first, last + 1, self.facts.created), _SCHEMA
        )


def open_stream(options: SourceOptions) -> OpenStream:
    """Read the state of a stream. Raises BrokerUnavailable, and Misconfigured if there is no such
    stream.
    """
    options = replace(options, fails_on_loss=False)
    facts = read_facts(options)
    with Broker(options) as broker:
        info = broker.run(
            broker.jetstream.ask(f"STREAM.INFO.{options.stream}", {"deleted_details": True})
        )
    return OpenStream(options, facts, frozenset(info["state"].get("deleted") or ()))


def split_ends(ends: Ends | None) -> list[Ends]:
    """Split a part of a stream into what one task reads. None: no part."""
    first, last = ends or (1, 0)
    return [(start, min(start + RANGE - 1, last)) for start in range(first, last + 1, RANGE)]


def refuse_other_stream(tables: WarehouseSnapshot, stream: OpenStream) -> None:
    """Raises Misconfigured if the warehouse was filled from another stream."""
    ingested = tables.warehouse.last_progress()
    if ingested is not None and ingested.created != stream.facts.created:
        raise Misconfigured(
            "--nats-url",
            (
                f"this {stream.facts.stream} was made at {stream.facts.created}, the "
                f"warehouse's at {ingested.created}"
            ),
        )
