"""The table `removals`: what was taken out of the tables on purpose, by an erasure or by the
retention. Values only.

A tenant stands in it as a salted hash: with the name at hand it can be checked that, and when, it
was erased, and the names cannot be read off the table. (Names can be guessed, so this is a
pseudonym and no more.) The sequences of what was removed are numbers of the stream; they say that a
gap is no loss.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from hashlib import sha256
from secrets import token_hex
from typing import Any, Literal
from uuid import uuid4

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import Struct

from router.lake.warehouse.commit import DataFile
from router.lake.warehouse.delta import LakeTable
from router.lake.warehouse.storage import Storage

REMOVALS = "removals"
RemovalKind = Literal["erase", "retention"]
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("kind", pa.string()),
        ("at", pa.timestamp("us", "UTC")),
        ("salt", pa.string()),
        ("tenant_hash", pa.string()),
        ("before", pa.string()),
        ("sequence", pa.int64()),
        ("day", pa.string()),
        ("first", pa.int64()),
        ("last", pa.int64()),
    ]
)

Integers = npt.NDArray[np.int64]


class Removal(Struct, frozen=True, kw_only=True):
    """One erasure, or one run of the retention."""

    id: str
    kind: RemovalKind
    at: datetime
    sequence: int  # of the stream: what came after it is untouched
    salt: str | None = None
    tenant_hash: str | None = None
    before: str | None = None  # YYYY-MM-DD, UTC: only of earlier days; None: of all days

    def is_of(self, tenant: str) -> bool:
        return self.salt is not None and self.tenant_hash == hash_tenant(self.salt, tenant)


class SequenceSpans:
    """A set of sequences as spans, which do not touch, in order."""

    def __init__(
        self, firsts: Sequence[int] | Integers = (), lasts: Sequence[int] | Integers = ()
    ) -> None:
        self.firsts, self.lasts = _merge(np.asarray(firsts, np.int64), np.asarray(lasts, np.int64))

    @classmethod
    def from_sequences(cls, sequences: pa.Array | pa.ChunkedArray) -> SequenceSpans:
        numbers = (
            sequences.to_numpy()
            if isinstance(sequences, pa.ChunkedArray)
            else sequences.to_numpy(zero_copy_only=False)
        )
        return cls(numbers, numbers)

    def __len__(self) -> int:
        return int((self.lasts - self.firsts + 1).sum())

    def contain(self, sequences: pa.Array | pa.ChunkedArray) -> pa.Array:
        """Return for each sequence whether it is in the set."""
        numbers = (
            sequences.to_numpy()
            if isinstance(sequences, pa.ChunkedArray)
            else sequences.to_numpy(zero_copy_only=False)
        )
        if not len(self.firsts):
            return pa.array(np.zeros(len(numbers), bool))
        places = np.searchsorted(self.firsts, numbers, side="right") - 1
        return pa.array((places >= 0) & (self.lasts[places] >= numbers))

    def list_sequences(self) -> pa.Array:
        """Return every sequence, in order."""
        sizes = self.lasts - self.firsts + 1
        before = np.concatenate([[0], np.cumsum(sizes)[:-1]]) if len(sizes) else sizes
        return pa.array(np.arange(sizes.sum()) + np.repeat(self.firsts - before, sizes), pa.int64())

    def touch(self, first: int | None, last: int | None) -> bool:
        """Whether a sequence of the set is between these, both inclusive. None: no bound is known."""
        if not len(self.firsts):
            return False
        place = int(np.searchsorted(self.lasts, 0 if first is None else first))
        return place < len(self.firsts) and (last is None or int(self.firsts[place]) <= last)


class Removals:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._table = LakeTable(storage, REMOVALS, SCHEMA, partitions=(), ordered_by="sequence")

    def append(
        self, removal: Removal, spans: Mapping[str, SequenceSpans] | Mapping[None, SequenceSpans]
    ) -> None:
        """Record what is removed next. `spans`: the sequences, of each event day (retention) or of
        all together (None).
        """
        rows = pa.concat_tables([_make_rows(removal, day, span) for day, span in spans.items()])
        path = f"{REMOVALS}/part-{uuid4().hex}.parquet"
        self._storage.make_directory(REMOVALS)
        with self._storage.filesystem.open_output_stream(self._storage.resolve(path)) as stream:
            pq.write_table(rows, stream, compression="zstd")
            size = stream.tell()
        self._table.commit(
            [
                DataFile(
                    path=path,
                    rows=len(rows),
                    bytes=size,
                    min_seq=removal.sequence,
                    max_seq=removal.sequence,
                )
            ],
            lambda _: [],
        )

    def list_all(self) -> list[Removal]:
        """Return every removal, oldest first."""
        rows = (
            self._read()
            .select(list(Removal.__struct_fields__))
            .group_by(list(Removal.__struct_fields__))
            .aggregate([])
            .to_pylist()
        )
        return sorted((Removal(**row) for row in rows), key=lambda removal: removal.at)

    def read_spans(self, kind: RemovalKind | None = None) -> SequenceSpans:
        """Return the removed sequences."""
        rows = self._read()
        rows = rows if kind is None else rows.filter(pa.compute.equal(rows["kind"], kind))
        rows = rows.filter(pa.compute.is_valid(rows["first"]))
        return SequenceSpans(rows["first"].to_numpy(), rows["last"].to_numpy())

    def list_days(self) -> list[str]:
        """Return the event days that the retention removed, in order."""
        return sorted(pa.compute.unique(self._read()["day"]).drop_null().to_pylist())

    def _read(self) -> pa.Table:
        parts = [SCHEMA.empty_table()]
        for file in self._table.list_files():
            with self._storage.filesystem.open_input_file(
                self._storage.resolve(file.path)
            ) as source:
                parts.append(pq.read_table(source, schema=SCHEMA))
        return pa.concat_tables(parts)


def hash_tenant(salt: str, tenant: str) -> str:
    return sha256(f"{salt}\0{tenant}".encode()).hexdigest()


def make_salt() -> str:
    return token_hex(16)


def _make_rows(removal: Removal, day: str | None, spans: SequenceSpans) -> pa.Table:
    count = max(1, len(spans.firsts))
    facts: dict[str, Any] = {name: getattr(removal, name) for name in Removal.__struct_fields__}
    columns = {
        name: pa.repeat(pa.scalar(value, SCHEMA.field(name).type), count)
        for name, value in {**facts, "day": day}.items()
    }
    ends: dict[str, Iterable[int] | Integers | list[None]] = {
        "first": spans.firsts,
        "last": spans.lasts,
    }
    columns |= {
        name: pa.array(values if len(spans.firsts) else [None], pa.int64())
        for name, values in ends.items()
    }
    return pa.table({name: columns[name] for name in SCHEMA.names}, schema=SCHEMA)


def _merge(firsts: Integers, lasts: Integers) -> tuple[Integers, Integers]:
    if not len(firsts):
        return firsts, lasts
    order = np.argsort(firsts, kind="stable")
    firsts, reach = firsts[order], np.maximum.accumulate(lasts[order])
    begins = np.concatenate([[True], firsts[1:] > reach[:-1] + 1])
    ends = np.concatenate([begins[1:], [True]])
    return firsts[begins], reach[ends]
