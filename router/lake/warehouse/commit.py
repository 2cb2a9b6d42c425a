"""What one commit says: which files were added and removed, how far the stream was read, and which period it closed. Values only."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import Struct, field

from router.core.errors import Poison
from router.lake.tables.gold_columns import FIRST_FIGURES

CommitKind = Literal["ingest", "compact", "seal", "backfill"]


class DataFile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One Parquet file of a table. `path` is relative to the warehouse; `day` (UTC) is the day of all its rows."""

    path: str
    rows: int
    bytes: int
    min_seq: int | None = None  # of the stream; gold's rows have none
    max_seq: int | None = None
    day: str | None = None  # YYYY-MM-DD


class Seal(Struct, frozen=True, kw_only=True):
    """A closed period: later events of these days become adjustments of the day on which they arrive."""

    first_day: str  # YYYY-MM-DD, UTC
    last_day: str  # inclusive
    sequence: int  # the last stream sequence that counts
    commit: int  # read the tables as of this one for the same bytes
    rows: int
    hash: str  # sha256 of the period's canonical gold rows, hex
    columns: tuple[str, ...] = FIRST_FIGURES  # the figures in those rows; a seal without a list is of gold's first version


class Commit(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One entry of the log. `first` and `last` are the stream sequences that an ingest read, both inclusive."""

    commit: int
    kind: CommitKind
    at: str  # ISO 8601, UTC
    stream: str | None = None
    created: str | None = None  # the stream's creation time: a recreated stream counts from 1 again
    query: str | None = None  # Spark's id of the streaming query, and its number for the micro-batch
    batch: int | None = None
    first: int | None = field(default=None, name="from")
    last: int | None = field(default=None, name="to")
    add: dict[str, list[DataFile]] = {}
    remove: dict[str, list[str]] = {}
    counts: dict[str, int] = {}
    seals: Seal | None = None


_decoder = msgspec.json.Decoder(Commit)


def encode_commit(commit: Commit) -> bytes:
    """Return a commit as the JSON of its file."""
    return msgspec.json.format(msgspec.json.encode(commit), indent=1)


def read_commit(data: bytes) -> Commit:
    """Raises Poison if the bytes are no commit of ours, or of a later version."""
    try:
        return _decoder.decode(data)
    except msgspec.DecodeError as exc:
        raise Poison(f"not a commit of a warehouse: {exc}") from exc
