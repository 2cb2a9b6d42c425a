"""Messages as Arrow record batches: plain lists of bytes while they arrive, columns once there are enough."""

from __future__ import annotations

import pyarrow as pa
from pyspark.sql.types import BinaryType, LongType, MapType, StringType, StructField, StructType, TimestampType

from router.lake.source.headers import parse_headers
from router.lake.source.positions import DeliveryPositions

MESSAGE_SCHEMA = StructType(
    [
        StructField("stream", StringType(), nullable=False),
        StructField("seq", LongType(), nullable=False),
        StructField("subject", StringType(), nullable=False),
        StructField("time", TimestampType(), nullable=False),  # when the stream stored it
        StructField("headers", MapType(StringType(), StringType())),  # null: it has none, or includeHeaders=false
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
    stream: str, buffer: DeliveryBuffer, positions: DeliveryPositions, schema: pa.Schema, *, has_headers: bool
) -> pa.RecordBatch:
    """Make a row for each position; they belong to the first deliveries of the buffer."""
    count = len(positions.sequences)
    columns = [
        pa.repeat(pa.scalar(stream, pa.string()), count),
        positions.sequences,
        _decode_subjects(buffer.subjects[:count]),
        positions.times.cast(pa.timestamp("ns", "UTC")).cast(schema.field("time").type, safe=False),
        parse_headers(buffer.heads[:count] if has_headers else [], count, schema.field("headers").type),
        pa.array(buffer.data[:count], pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _decode_subjects(subjects: list[bytes]) -> pa.Array:
    try:
        return pa.array(subjects, pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:  # the server accepts any bytes as a subject, and one message must not stop a query for good
        return pa.array([subject.decode("utf-8", "replace") for subject in subjects])
