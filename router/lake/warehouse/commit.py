"""What the warehouse says of itself: its files, which versions of its tables belong together, which
periods it closed. Values only.
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from router.lake.tables.gold_columns import FIRST_FIGURES

CutKind = Literal["ingest", "compact", "seal", "backfill", "erase"]


class DataFile(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """One Parquet file of a table. `path` is relative to the warehouse; `day` (UTC) is the day of
    all its rows.
    """

    path: str
    rows: int
    bytes: int
    min_seq: int | None = None  # of the stream; gold's rows have none
    max_seq: int | None = None
    day: str | None = None  # YYYY-MM-DD
    bucket: int | None = None  # silver's: of the identities

    def shares_sequences(self, other: DataFile) -> bool:
        """Whether both may hold the same sequence."""
        return (self.min_seq or 0) <= (other.max_seq or 0) and (other.min_seq or 0) <= (
            self.max_seq or 0
        )


class Seal(Struct, frozen=True, kw_only=True):
    """A closed period: later events of these days become corrections in the day on which they
    arrive.
    """

    id: str
    first_day: str  # YYYY-MM-DD, UTC
    last_day: str  # inclusive
    sequence: int  # the last stream sequence that counts
    cut: int  # read the tables as of this one for the same bytes
    rows: int
    hash: str  # sha256 of the period's canonical gold rows, hex
    columns: tuple[str, ...] = FIRST_FIGURES  # the figures in those rows
    # from before each erasure that took rows of the period, oldest first
    earlier_hashes: tuple[str, ...] = ()


class Progress(Struct, frozen=True, kw_only=True):
    """The part of a stream that a batch holds, both sequences inclusive. The stream's creation time
    tells a recreated one.
    """

    stream: str
    created: str
    first: int
    last: int

    @property
    def application(self) -> str:
        """The id of Delta's application transactions: their version is the last sequence."""
        return name_application(self.stream, self.created)

    def find_rest(self, last: int) -> Progress | None:
        """Return the part of the stream after this one, up to a sequence; None: there is none."""
        return (
            Progress(stream=self.stream, created=self.created, first=self.last + 1, last=last)
            if last > self.last
            else None
        )

    def is_after(self, other: Progress | None) -> bool:
        """Whether it holds more than a part that is known. None: none is."""
        return other is None or (self.application == other.application and self.last > other.last)


class Cut(Struct, frozen=True, omit_defaults=True, kw_only=True):
    """Versions of the tables that belong together. `number` rises by one with each cut."""

    number: int
    kind: CutKind
    at: str  # ISO 8601, UTC
    versions: dict[str, int]
    progress: Progress | None = None  # of an ingest
    counts: dict[str, int] = {}


def name_application(stream: str, created: str) -> str:
    return f"{stream}@{created}"
