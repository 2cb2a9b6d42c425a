"""Check that every sequence is there once: none missing in bronze, each in exactly one of the tables that bronze is split into."""

from __future__ import annotations

from collections.abc import Set

import pyarrow as pa
import pyarrow.compute as pc

from router.lake.reconcile.checks import ReconcileCheck, format_spans, name_first
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.warehouse import SequenceSpans

PARTS = ("silver", "duplicates", "conflicts", "quarantine")


def check_sequences(tables: WarehouseSnapshot, deleted: Set[int] | None) -> tuple[ReconcileCheck, ReconcileCheck]:
    """`deleted`: the sequences that the stream reports as deleted; None if it was not asked."""
    bronze = _sort(tables.read_column("bronze", "seq", pa.int64()))
    return _check_gaps(bronze, deleted, tables.warehouse.removals.read_spans()), _check_parts(bronze, tables)


def _check_gaps(bronze: pa.Array, deleted: Set[int] | None, removed: SequenceSpans) -> ReconcileCheck:
    """`removed`: what an erasure or the retention took out; nothing of it is missing."""
    if not len(bronze):
        return ReconcileCheck("sequences", True, "bronze is empty")
    first, last = bronze[0].as_py(), bronze[-1].as_py()
    absent = _find_missing(bronze)
    erased = removed.contain(absent)
    missing = [sequence for sequence in absent.filter(pc.invert(erased)).to_pylist() if sequence not in (deleted or ())]
    twice = _find_repeated(bronze)
    figures: dict[str, int] = {
        "first": first,
        "last": last,
        "messages": len(bronze),
        "missing": len(missing),
        "twice": len(twice),
        "removed": pc.sum(erased).as_py() or 0,
    }
    if not missing and not twice:
        return ReconcileCheck("sequences", True, f"{len(bronze)} messages" + _describe_absent(len(absent), figures["removed"]), figures)
    hint = "; the stream was not asked whether they were deleted" if deleted is None and missing else ""
    return ReconcileCheck(
        "sequences", False, f"{len(missing)} missing, {len(twice)} twice{hint}", figures, name_first([*format_spans(missing), *twice])
    )


def _check_parts(bronze: pa.Array, tables: WarehouseSnapshot) -> ReconcileCheck:
    parts = {name: tables.read_column(name, "seq", pa.int64()) for name in PARTS}
    whole = _sort(pa.chunked_array(list(parts.values()), pa.int64()).combine_chunks())
    figures: dict[str, object] = {"bronze": len(bronze), **{name: len(part) for name, part in parts.items()}}
    says = f"{len(bronze)} = " + " + ".join(f"{len(part)} {name}" for name, part in parts.items())
    if whole.equals(bronze):
        return ReconcileCheck("bronze = its parts", True, says, figures)
    lost = bronze.filter(pc.invert(pc.is_in(bronze, whole))).to_pylist()
    foreign = whole.filter(pc.invert(pc.is_in(whole, bronze))).to_pylist()
    twice = _find_repeated(whole)
    says = f"{len(lost)} in no part, {len(twice)} in more than one, {len(foreign)} not in bronze"
    return ReconcileCheck(
        "bronze = its parts", False, says, figures, name_first([*format_spans(lost), *format_spans(twice), *format_spans(foreign)])
    )


def _sort(numbers: pa.Array) -> pa.Array:
    return numbers.take(pc.sort_indices(numbers))


def _describe_absent(absent: int, removed: int) -> str:
    parts = [f"{absent - removed} were deleted in the stream"] * (absent > removed) + [f"{removed} were removed on purpose"] * (removed > 0)
    return "".join(f", {part}" for part in parts)


def _find_missing(ordered: pa.Array) -> pa.Array:
    """Return the missing numbers between the first and the last."""
    wide = pc.greater(pc.subtract(ordered[1:], ordered[:-1]), 1)
    before, after = ordered[:-1].filter(wide), ordered[1:].filter(wide)
    return SequenceSpans(pc.add(before, 1).to_numpy(), pc.subtract(after, 1).to_numpy()).list_sequences()


def _find_repeated(ordered: pa.Array) -> list[int]:
    return sorted(set(ordered[1:].filter(pc.equal(ordered[1:], ordered[:-1])).to_pylist()))
