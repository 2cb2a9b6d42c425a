"""Compare by sequence, a range of sequences a task: the stream with bronze, bronze with its parts,
and each cost with silver's.

    stream            the digest of each message
    bronze            the digest of each message, and the cost in its text, read by another parser
                      than the one that filled silver
    silver            the cost
    the other parts   the sequence alone

Before the checks stand `Sequences`, by which a check names what it found, and `read_costs`, the
other parser.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import partial
from hashlib import blake2b
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec import Struct
from pyspark.sql import SparkSession

from router.lake.reconcile.comparison import (
    NAMED,
    Integers,
    ReconcileCheck,
    Sent,
    name_first,
    run_comparison,
    split_rows,
)
from router.lake.reconcile.stream import (
    BRONZE_CHECK,
    RANGE,
    Ends,
    OpenStream,
    WarehouseSnapshot,
    split_ends,
)
from router.lake.reconcile.sums import format_money, sum_exactly
from router.lake.warehouse import DataFile, SequenceSpans
from router.lake.warehouse.storage import Storage

# -- The checks.

PARTS = ("silver", "duplicates", "conflicts", "quarantine")
ROWS_PER_READ = 16_384
DIGEST = pa.binary(16)
COST_CHECK = "cost: bronze = silver"
_ROWS = {
    "stream": pa.schema([("seq", pa.int64()), ("digest", DIGEST)]),
    "bronze": pa.schema([("seq", pa.int64()), ("digest", DIGEST), ("cost", pa.decimal128(38, 9))]),
    "silver": pa.schema([("seq", pa.int64()), ("cost", pa.decimal128(38, 9))]),
    **dict.fromkeys(PARTS[1:], pa.schema([("seq", pa.int64())])),
}

# a table and its file; or the stream, and both ends of a part of it
Source = tuple[str, DataFile | Ends]


class MessagePlan(Struct, frozen=True, kw_only=True):
    """What every task knows. Ends are sequences, both inclusive; None: bronze is empty, or the
    stream was not asked.
    """

    warehouse: str
    begin: int  # where the first task's range begins
    bronze: Ends | None
    compared: Ends | None  # of the stream
    stream: OpenStream | None
    removed: SequenceSpans  # by an erasure or the retention: nothing of it is missing


class RangeFound(Struct, frozen=True):
    """What one task found."""

    counts: dict[str, int]
    sequences: dict[str, Sequences]


def check_messages(
    spark: SparkSession, tables: WarehouseSnapshot, stream: OpenStream | None
) -> Iterator[ReconcileCheck]:
    """Yield the checks of the stream, of bronze's sequences, of its parts, and of the costs."""
    files = [(name, file) for name in ("bronze", *PARTS) for file in tables.list_files(name)]
    ends = _find_ends([file for _, file in files])
    bronze = _find_ends([file for name, file in files if name == "bronze"])
    first, last = ends or (0, 0)
    compared = (
        None
        if stream is None or bronze is None
        else (max(bronze[0], stream.facts.first), bronze[1])
    )
    plan = MessagePlan(
        warehouse=tables.warehouse.location,
        begin=first // RANGE * RANGE,
        bronze=bronze,
        compared=compared,
        stream=stream,
        removed=tables.warehouse.removals.read_spans(),
    )
    tasks = (last - plan.begin) // RANGE + 1
    sources: list[Source] = [*files, *(("stream", part) for part in split_ends(compared))]
    parts = run_comparison(
        spark, sources, partial(read_source, plan), tasks, partial(compare_range, plan)
    )
    whole = _join(parts)
    yield _tell_stream(plan, whole)
    yield _tell_sequences(plan, whole)
    yield _tell_parts(whole)
    yield _tell_costs(whole)


def read_source(plan: MessagePlan, source: Source) -> Iterator[Sent]:
    """Read one file, or a part of the stream."""
    name, what = source
    rows = _read_file(plan, name, what) if isinstance(what, DataFile) else _read_stream(plan, what)
    for table in rows:
        yield from split_rows(name, table, (table["seq"].to_numpy() - plan.begin) // RANGE)


def compare_range(plan: MessagePlan, task: int, rows: dict[str, list[pa.Table]]) -> RangeFound:
    """Compare what all sources have of one range."""
    held = {
        name: pa.concat_tables([schema.empty_table(), *rows.get(name, [])])
        for name, schema in _ROWS.items()
    }
    first = plan.begin + task * RANGE
    bronze, parts = (
        np.sort(_take_sequences(held["bronze"])),
        np.sort(np.concatenate([_take_sequences(held[name]) for name in PARTS])),
    )
    absent = np.setdiff1d(_list_expected(plan.bronze, first), bronze)
    was_removed = plan.removed.contain(pa.array(absent)).to_numpy(zero_copy_only=False)
    deleted = (
        np.fromiter(plan.stream.deleted, np.int64)
        if plan.stream is not None
        else np.zeros(0, np.int64)
    )
    sequences = {
        "missing": absent[~np.isin(absent, deleted) & ~was_removed],
        "twice": _find_repeated(bronze),
        "lost": np.setdiff1d(bronze, parts),
        "several": _find_repeated(parts),
        "foreign": np.setdiff1d(parts, bronze),
        "differ": _find_differing(plan, held),
    }
    read = held["bronze"]["cost"].take(
        pc.index_in(held["silver"]["seq"], held["bronze"]["seq"].combine_chunks())
    )
    is_wrong = pc.fill_null(pc.not_equal(read, held["silver"]["cost"]), True)
    sequences["wrong"] = np.sort(_take_sequences(held["silver"].filter(is_wrong)))
    amounts = {
        "in_bronze": sum_exactly(read.drop_null()),
        "in_silver": sum_exactly(held["silver"]["cost"]),
    }
    counts = {
        **{name: len(table) for name, table in held.items()},
        **amounts,
        "absent": len(absent),
        "removed": int(was_removed.sum()),
    }
    return RangeFound(
        counts, {name: list_sequences(numbers) for name, numbers in sequences.items()}
    )


def _read_file(plan: MessagePlan, name: str, file: DataFile) -> Iterator[pa.Table]:
    storage = Storage(plan.warehouse)
    with storage.filesystem.open_input_file(storage.resolve(file.path)) as opened:
        parquet = pq.ParquetFile(opened)
        if name != "bronze":
            yield parquet.read(_ROWS[name].names).cast(_ROWS[name])
            return
        for batch in parquet.iter_batches(ROWS_PER_READ, columns=["seq", "data"]):
            rows = pa.Table.from_batches([batch])
            columns = [rows["seq"], _digest(rows["data"]), read_costs(rows["data"])]
            yield pa.Table.from_arrays(columns, schema=_ROWS["bronze"])


def _read_stream(plan: MessagePlan, ends: Ends) -> Iterator[pa.Table]:
    if plan.stream is not None:
        for batch in plan.stream.messages(*ends):
            rows = pa.Table.from_batches(
                [batch.filter(pc.invert(plan.removed.contain(batch["seq"])))]
            )
            yield pa.Table.from_arrays([rows["seq"], _digest(rows["data"])], schema=_ROWS["stream"])


def _digest(bodies: pa.ChunkedArray) -> pa.Array:
    """A body is compared by its digest, so that it need not travel."""
    return pa.array([blake2b(body, digest_size=16).digest() for body in bodies.to_pylist()], DIGEST)


def _find_differing(plan: MessagePlan, held: dict[str, pa.Table]) -> Integers:
    """Return the sequences that stream and bronze have differently, as far as the stream still has
    them.
    """
    if plan.compared is None:
        return np.zeros(0, np.int64)
    first, last = plan.compared
    sent, kept = held["stream"], held["bronze"]
    kept = kept.filter(
        pc.and_(pc.greater_equal(kept["seq"], first), pc.less_equal(kept["seq"], last))
    )
    digest = kept["digest"].take(pc.index_in(sent["seq"], kept["seq"].combine_chunks()))
    other = sent.filter(pc.fill_null(pc.not_equal(sent["digest"], digest), True))
    alone = np.setdiff1d(_take_sequences(kept), _take_sequences(sent))
    return np.union1d(_take_sequences(other), alone)


def _list_expected(ends: Ends | None, first: int) -> Integers:
    low, high = ends or (1, 0)
    return np.arange(max(low, first), min(high, first + RANGE - 1) + 1, dtype=np.int64)


def _take_sequences(rows: pa.Table) -> Integers:
    numbers: Integers = rows["seq"].to_numpy()
    return numbers


def _find_repeated(rising: Integers) -> Integers:
    return np.unique(rising[1:][rising[1:] == rising[:-1]])


def _find_ends(files: Sequence[DataFile]) -> Ends | None:
    if not files:
        return None
    return min(file.min_seq or 0 for file in files), max(file.max_seq or 0 for file in files)


def _join(parts: Sequence[RangeFound]) -> RangeFound:
    counts = {name: sum(part.counts[name] for part in parts) for name in parts[0].counts}
    return RangeFound(
        counts,
        {
            name: join_sequences(part.sequences[name] for part in parts)
            for name in parts[0].sequences
        },
    )


def _tell_stream(plan: MessagePlan, compared: RangeFound) -> ReconcileCheck:
    if plan.stream is None:
        return ReconcileCheck(BRONZE_CHECK, None, "the stream was not asked")
    if plan.compared is None:
        return ReconcileCheck(BRONZE_CHECK, True, "bronze is empty")
    (first, last), wrong, messages = (
        plan.compared,
        compared.sequences["differ"],
        compared.counts["stream"],
    )
    figures = {"from": first, "to": last, "messages": messages, "differ": wrong.count}
    return ReconcileCheck(
        BRONZE_CHECK,
        not wrong.count,
        f"{messages} messages, {first} to {last}, byte for byte",
        figures,
        wrong.format(),
    )


def _tell_sequences(plan: MessagePlan, compared: RangeFound) -> ReconcileCheck:
    if plan.bronze is None:
        return ReconcileCheck("sequences", True, "bronze is empty")
    missing, twice, messages = (
        compared.sequences["missing"],
        compared.sequences["twice"],
        compared.counts["bronze"],
    )
    figures = {
        "first": plan.bronze[0],
        "last": plan.bronze[1],
        "messages": messages,
        "missing": missing.count,
        "twice": twice.count,
        "removed": compared.counts["removed"],
    }
    if not missing.count and not twice.count:
        return ReconcileCheck(
            "sequences", True, f"{messages} messages" + _describe_absent(compared.counts), figures
        )
    hint = (
        "; the stream was not asked whether they were deleted"
        if plan.stream is None and missing.count
        else ""
    )
    names = name_first([*missing.format(), *twice.format()])
    return ReconcileCheck(
        "sequences", False, f"{missing.count} missing, {twice.count} twice{hint}", figures, names
    )


def _describe_absent(counts: dict[str, int]) -> str:
    deleted, removed = counts["absent"] - counts["removed"], counts["removed"]
    parts = [f"{deleted} were deleted in the stream"] * (deleted > 0) + [
        f"{removed} were removed on purpose"
    ] * (removed > 0)
    return "".join(f", {part}" for part in parts)


def _tell_parts(compared: RangeFound) -> ReconcileCheck:
    messages, parts = compared.counts["bronze"], {name: compared.counts[name] for name in PARTS}
    figures: dict[str, Any] = {"bronze": messages, **parts}
    lost, several, foreign = (compared.sequences[name] for name in ("lost", "several", "foreign"))
    if not lost.count and not several.count and not foreign.count:
        says = f"{messages} = " + " + ".join(f"{count} {name}" for name, count in parts.items())
        return ReconcileCheck("bronze = its parts", True, says, figures)
    says = (
        f"{lost.count} in no part, {several.count} in more than one, {foreign.count} not in bronze"
    )
    names = name_first([*lost.format(), *several.format(), *foreign.format()])
    return ReconcileCheck("bronze = its parts", False, says, figures, names)


def _tell_costs(compared: RangeFound) -> ReconcileCheck:
    wrong, events = compared.sequences["wrong"], compared.counts["silver"]
    if not events:
        return ReconcileCheck(COST_CHECK, True, "silver is empty")
    bronze, silver = (format_money(compared.counts[name]) for name in ("in_bronze", "in_silver"))
    figures = {"events": events, "bronze": bronze, "silver": silver, "differ": wrong.count}
    return ReconcileCheck(
        COST_CHECK, not wrong.count, f"{silver} over {events} events", figures, wrong.format()
    )


# -- Sequences that a check names: how many, and the first of them as spans. The tasks find
# them, the driver puts them together.

Span = tuple[int, int]


class Sequences(Struct, frozen=True):
    """`spans`: the first ones, rising, both ends inclusive."""

    count: int = 0
    spans: tuple[Span, ...] = ()

    def format(self) -> list[str]:
        """Write them as `5` and `7-12`."""
        return [str(first) if first == last else f"{first}-{last}" for first, last in self.spans]


def list_sequences(rising: Integers) -> Sequences:
    """Return the rising numbers as spans."""
    if not len(rising):
        return Sequences()
    ends = np.flatnonzero(np.diff(rising) > 1)
    firsts, lasts = (
        np.concatenate([rising[:1], rising[ends + 1]]),
        np.concatenate([rising[ends], rising[-1:]]),
    )
    return Sequences(
        len(rising), tuple(zip(firsts[:NAMED].tolist(), lasts[:NAMED].tolist(), strict=True))
    )


def join_sequences(parts: Iterable[Sequences]) -> Sequences:
    """Put the parts together, which are of neighbouring ranges, in order."""
    count, spans = 0, list[Span]()
    for part in parts:
        count += part.count
        for first, last in part.spans:
            if spans and spans[-1][1] + 1 == first:
                spans[-1] = (spans[-1][0], last)
            else:
                spans.append((first, last))
    return Sequences(count, tuple(spans[:NAMED]))


# -- Costs, read from the text of the bodies again: by Arrow, and by Decimal in doubt. The
# number is taken with all its digits and rounded half up to nine places: never a float.

MONEY_TYPE = pa.decimal128(38, 9)
_EXACT_TYPE = pa.decimal256(76, 40)
# At most as many digits and as great an exponent as `_EXACT_TYPE` holds; Decimal reads any other
# number.
_COST_PATTERN = (
    r'"cost"\s*:\s*(?P<cost>-?[0-9]{1,17}(?:\.[0-9]{1,20})?(?:[eE][-+]?1?[0-9])?)\s*[,}]'
)
_NINE_PLACES = Decimal("0.000000001")
_WIDE_CONTEXT = Context(prec=100)
_TOO_LARGE_COST = Decimal("1e29")


def read_costs(bodies: pa.ChunkedArray) -> pa.Array:
    """Return the cost of each body, decimal(38,9), null if it has none.

    A body is parsed as JSON if its text alone does not say it: a second "cost" may be another
    field's, and a backslash may hide one.
    """
    text = bodies.combine_chunks()
    told_costs = (
        pc.struct_field(pc.extract_regex(text, _COST_PATTERN), "cost")
        .cast(pa.string())
        .cast(_EXACT_TYPE)
    )
    rounded = pc.round(told_costs, 9, "half_towards_infinity")
    is_plain = pc.and_(
        pc.equal(pc.count_substring(text, '"cost"'), 1), pc.invert(pc.match_substring(text, "\\"))
    )
    is_plain = pc.and_(
        is_plain,
        pc.fill_null(pc.less(pc.abs(rounded), pa.scalar(_TOO_LARGE_COST, _EXACT_TYPE)), False),
    )
    costs = pc.if_else(is_plain, rounded, pa.scalar(None, _EXACT_TYPE)).cast(MONEY_TYPE)
    if pc.all(is_plain).as_py():
        return costs
    again = [_parse_cost(body) for body in text.filter(pc.invert(is_plain)).to_pylist()]
    return pc.replace_with_mask(costs, pc.invert(is_plain), pa.array(again, MONEY_TYPE))


def _parse_cost(body: bytes) -> Decimal | None:
    """Return the cost of a body; None if it has none that could be summed."""
    try:
        event = json.loads(body, parse_float=Decimal, parse_int=Decimal)
        cost = event.get("cost") if isinstance(event, dict) else None
        cost = (
            cost.quantize(_NINE_PLACES, ROUND_HALF_UP, _WIDE_CONTEXT)
            if isinstance(cost, Decimal)
            else None
        )
    except (ValueError, RecursionError, InvalidOperation):
        return None
    return cost if cost is not None and abs(cost) < _TOO_LARGE_COST else None
