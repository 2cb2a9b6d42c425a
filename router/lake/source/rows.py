"""Messages as Arrow record batches: plain lists of bytes while they arrive, columns once there are
enough. Their positions are parsed many at once.

The column of headers stands first, then the batch.
"""

from __future__ import annotations

import re

import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyarrow import csv
from pyspark.sql.types import (
    BinaryType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from router.core.message import find_stream
from router.delivery.wire.frames import parse_head

# -- Read the positions of messages from the reply subjects of their deliveries
# (`router.core.message`), many at once.
#
# Arrow's reader of delimited text parses a batch at once: 0.13 µs each, four times less than in
# Python.


class DeliveryPosition(Struct, frozen=True):
    """One delivery. `pending`: how many messages the consumer has left after it."""

    sequence: int
    pending: int


class DeliveryPositions(Struct, frozen=True):
    """Many deliveries, as columns of int64."""

    sequences: pa.Array
    deliveries: pa.Array  # counted by the consumer, from 1: a missing number was lost on the way
    times: pa.Array  # nanoseconds since the epoch

    def take_first(self, count: int) -> DeliveryPositions:
        return DeliveryPositions(
            self.sequences[:count], self.deliveries[:count], self.times[:count]
        )

    def take_below(self, end: int) -> DeliveryPositions:
        """Return those with sequences below `end`."""
        if self.sequences[-1].as_py() < end:
            return self
        return self.take_first(pc.sum(pc.less(self.sequences, end)).as_py())

    def count_contiguous(self, delivery: int) -> int:
        """Count how many follow one another without a gap, if the first one is that delivery."""
        count = len(self.deliveries)
        if not count or self.deliveries[0].as_py() != delivery:
            return 0
        if self.deliveries[-1].as_py() == delivery + count - 1:  # they only rise
            return count
        return _count_to_gap(self.deliveries)

    def find_gap(self, previous: int) -> int | None:
        """Return the first missing sequence between `previous` and the last one; None if there is
        no gap.
        """
        count = len(self.sequences)
        if self.sequences[0].as_py() != previous + 1:
            return previous + 1
        if self.sequences[-1].as_py() == previous + count:
            return None
        return previous + _count_to_gap(self.sequences) + 1


def parse_position(reply: bytes) -> DeliveryPosition:
    part = reply.split(b".")
    at = _find_sequence(len(part))
    return DeliveryPosition(int(part[at]), int(part[at + 3]))


def parse_positions(replies: list[bytes]) -> DeliveryPositions:
    """Parse at least one reply subject, all of one form."""
    tokens = replies[0].count(b".") + 1
    at = _find_sequence(tokens)
    wanted = [str(at), str(at + 1), str(at + 2)]
    text = b"\n".join(replies)
    table = csv.read_csv(
        pa.py_buffer(text),
        read_options=csv.ReadOptions(
            column_names=[str(number) for number in range(tokens)],
            use_threads=False,
            block_size=len(text) + 1,
        ),
        parse_options=csv.ParseOptions(delimiter=".", quote_char=False),
        convert_options=csv.ConvertOptions(
            include_columns=wanted, column_types=dict.fromkeys(wanted, pa.int64())
        ),
    )
    return DeliveryPositions(*(table.column(name).combine_chunks() for name in wanted))


def _find_sequence(tokens: int) -> int:
    return find_stream(tokens) + 3


def _count_to_gap(rising: pa.Array) -> int:
    """Count the numbers before the first gap."""
    steps = pc.subtract(rising[1:], rising[:-1])
    steps_before: int = pc.index(pc.not_equal(steps, 1), True).as_py()
    return steps_before + 1


# -- Messages as Arrow record batches: plain lists of bytes while they arrive, columns once there
# are enough.


# -- The record batch.

MESSAGE_SCHEMA = StructType(
    [
        StructField("stream", StringType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("subject", StringType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),  # when the stream stored it
        # null: it has none, or includeHeaders=false
        StructField("headers", MapType(StringType(), StringType())),
        StructField("data", BinaryType(), nullable=False),
    ]
)


class DeliveryBuffer:
    """The deliveries of one consumer, in their order."""

    __slots__ = ("data", "heads", "replies", "subjects")

    def __init__(self) -> None:
        self.replies: list[bytes] = []
        self.subjects: list[bytes] = []
        self.heads: list[bytes | None] = []
        self.data: list[bytes] = []

    def __len__(self) -> int:
        return len(self.replies)

    def count_bytes(self, first: int) -> int:
        return sum(map(len, self.data[first:])) + sum(map(len, filter(None, self.heads[first:])))


def make_record_batch(
    stream: str,
    buffer: DeliveryBuffer,
    positions: DeliveryPositions,
    schema: pa.Schema,
    *,
    has_headers: bool,
) -> pa.RecordBatch:
    """Make a row for each position; they belong to the first deliveries of the buffer."""
    count = len(positions.sequences)
    columns = [
        pa.repeat(pa.scalar(stream, pa.string()), count),
        positions.sequences,
        _decode_subjects(buffer.subjects[:count]),
        positions.times.cast(pa.timestamp("ns", "UTC")).cast(schema.field("time").type, safe=False),
        parse_headers(
            buffer.heads[:count] if has_headers else [], count, schema.field("headers").type
        ),
        pa.array(buffer.data[:count], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decode_subjects(subjects: list[bytes]) -> pa.Array:
    try:
        return pa.array(subjects, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        # the server accepts any bytes as a subject, and one message must not stop a query for good
        return pa.array([subject.decode("utf-8", "replace") for subject in subjects])


# -- Header blocks as a column of maps.
#
# Messages of one publisher have the same header names in the same order, so one regular
# expression, made from the first block, takes the values out of all of them: 0.3 µs a message,
# a tenth of the cost of parsing each. If any block of a batch differs, each is parsed on its
# own.

_PLAIN_VALUE = "[!-~]+(?: [!-~]+)*"  # a value that a parser of headers neither trims nor decodes


def parse_headers(heads: list[bytes | None], count: int, kind: pa.DataType) -> pa.Array:
    """Null for a message without headers, null for all if `heads` is empty. The first of equal
    names counts, as in the broker's dedupe.
    """
    if not any(heads):
        return pa.nulls(count, kind)
    headers = _parse_uniform(heads, kind) if all(heads) else None
    return headers if headers is not None else _parse_each(heads, kind)


def _parse_uniform(heads: list[bytes | None], kind: pa.DataType) -> pa.Array | None:
    names = list(parse_head(heads[0] or b"") or ())
    lines = "".join(
        f"{re.escape(name)}: (?P<v{place}>{_PLAIN_VALUE})\r\n" for place, name in enumerate(names)
    )
    try:
        texts = pa.array(heads, pa.binary()).cast(pa.string())
        values = pc.extract_regex(texts, pattern=f"^NATS/1\\.0\r\n{lines}\r\n$")
    except pa.ArrowInvalid:  # not UTF-8, or names that make no expression
        return None
    if not names or values.null_count:
        return None
    return _make_maps(names, values.flatten(), len(heads), kind)


def _make_maps(
    names: list[str], columns: list[pa.Array], count: int, kind: pa.DataType
) -> pa.Array:
    width = len(names)
    if width == 1:
        keys, values = pa.repeat(pa.scalar(names[0]), count), columns[0]
    else:
        keys = pa.array(names * count)
        values = pa.concat_arrays(columns).take(
            pa.array([column * count + row for row in range(count) for column in range(width)])
        )
    offsets = pa.array(range(0, count * width + 1, width), pa.int32())
    return pa.MapArray.from_arrays(offsets, keys, values, type=kind)


def _parse_each(heads: list[bytes | None], kind: pa.DataType) -> pa.Array:
    names: list[str] = []
    values: list[str] = []
    offsets: list[int | None] = []
    for head in heads:
        headers = parse_head(head) if head else None
        offsets.append(len(names) if headers else None)
        if headers:
            names += headers
            values += headers.values()
    offsets.append(len(names))
    return pa.MapArray.from_arrays(
        pa.array(offsets, pa.int32()),
        pa.array(names, pa.string()),
        pa.array(values, pa.string()),
        type=kind,
    )
