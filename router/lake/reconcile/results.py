"""Compare the acked results with the usage that was metered for them, both ways.

    the bill of a known assignment   meters each of its results, whatever their statuses; a result
                                     may name its assignment or its request
    any other event of a result      meters the result of the same assignment or request, and of the
                                     same status
    a further invocation             meters no result, and waits for none; nor does an adjustment

    results, usage ── by reference ──> which results are metered; which usage has been heard of ── by sequence ──> the same, of each event

A result that became a dead letter was not metered; an unreadable result became a dead letter. Usage
that is in the stream and not yet in the tables counts as metered. Usage that is older than the
oldest stored result cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from math import ceil, inf
from typing import Any

import orjson
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from pyspark.sql import SparkSession

from router.contracts.decision import INVOKED_TYPE, STREAMED_TYPE
from router.contracts.field_readers import MAX_INT64
from router.contracts.result import ExecResult, read_result
from router.contracts.usage import assignment_identity, identity_of
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message
from router.delivery.wire.api import nanos
from router.lake.files import read_files
from router.lake.reconcile.comparison import (
    ReconcileCheck,
    Sent,
    compare_rows,
    encode_table,
    hash_groups,
    name_first,
    send_again,
    send_rows,
    split_rows,
)
from router.lake.reconcile.stream import (
    Ends,
    OpenStream,
    WarehouseSnapshot,
    open_stream,
    split_ends,
)
from router.lake.source.broker import Broker
from router.lake.source.options import SourceOptions
from router.lake.warehouse import DataFile, SequenceSpans
from router.lake.warehouse.storage import Storage

RESULTS_CHECK = "results acked = usage"
ANY = WorkerMessageLimits(
    max_cost=inf, max_timestamp_age_ms=MAX_INT64, max_timestamp_ahead_ms=MAX_INT64
)  # what was above the limits became a dead letter
INVOCATIONS = frozenset({INVOKED_TYPE, STREAMED_TYPE})  # their bill waits for no result
_USED = (
    "seq",
    "tenant_id",
    "event_type",
    "assignment_id",
    "request_id",
    "status",
    "event_id",
    "adjustment",
)

_KEY = ("reference", "status")  # the assignment or request
# status None: of whatever status; is_owed: a result
_METERED = ("seq", "reference", "status", "is_owed", "label")
_TYPES = {
    **dict.fromkeys(("seq",), pa.int64()),
    **dict.fromkeys(("reference", "status", "label"), pa.string()),
    **dict.fromkeys(("is_acked", "is_owed", "is_heard", "is_metered"), pa.bool_()),
}
ROWS_PER_TASK = 500_000

Key = tuple[str, str]
Source = tuple[str, DataFile | Ends]


class ResultStreams(Struct, frozen=True):
    """The streams to compare with the tables. Results are acked up to and including sequence
    `acked`.
    """

    results: OpenStream
    acked: int
    usage: OpenStream
    dead_letters: OpenStream


class ResultPlan(Struct, frozen=True, kw_only=True):
    """What every task knows. `ingested`: the last sequence of usage in the tables. `removed`: what
    was taken out of them on purpose.
    """

    warehouse: str
    streams: ResultStreams
    oldest_ns: int
    ingested: int
    removed: SequenceSpans
    tasks: int

    @property
    def first_pending(self) -> int:
        """The first sequence of usage that can be in the stream alone."""
        return min([self.ingested + 1, *(int(first) for first in self.removed.firsts[:1])])


class KeysFound(Struct, frozen=True, kw_only=True):
    """What one task found. `results`: acked outcomes; `usage`: events that wait for a result.
    `names`: of those that lack the other.
    """

    results: int
    usage: int
    without_usage: int
    without_result: int
    names: tuple[tuple[str, ...], tuple[str, ...]]


def open_result_streams(
    results: SourceOptions, usage: SourceOptions, dead_letters: SourceOptions, durable: str
) -> ResultStreams:
    """Open the streams in this order: usage and dead letters are stored before a result is acked,
    so the later ones have them.

    Raises BrokerUnavailable, and Misconfigured if a stream does not exist.
    """
    sent = open_stream(results)
    acked = _read_ack_floor(sent, durable)
    return ResultStreams(sent, acked, open_stream(usage), open_stream(dead_letters))


def check_results(
    spark: SparkSession, tables: WarehouseSnapshot, streams: ResultStreams
) -> ReconcileCheck:
    """Check both ways: results without usage, and usage without a result."""
    oldest_ns = _find_oldest(streams.results)
    if oldest_ns is None:
        return ReconcileCheck(RESULTS_CHECK, None, "there are no results in the stream")
    plan = _make_plan(spark, tables, streams, oldest_ns)
    sent = send_rows(
        spark,
        [*_split("results", streams.results), *_split("dead_letters", streams.dead_letters)],
        partial(_read_part, plan),
    )
    outcomes = send_again(sent, plan.tasks, partial(_drop_dead_lettered, plan))
    usage: list[Source] = [("silver", file) for file in tables.list_files("silver")]
    metered = send_rows(
        spark,
        [*usage, *_split("usage", streams.usage, plan.first_pending)],
        partial(_read_part, plan),
    )
    matched = send_again(outcomes.union(metered), plan.tasks, partial(_match_references, plan))
    return _tell(compare_rows(matched, plan.tasks, _compare))


def _make_plan(
    spark: SparkSession, tables: WarehouseSnapshot, streams: ResultStreams, oldest_ns: int
) -> ResultPlan:
    ingested = tables.warehouse.last_progress()
    rows = sum(file.rows for file in tables.list_files("silver")) + streams.results.facts.messages
    return ResultPlan(
        warehouse=tables.warehouse.location,
        streams=streams,
        oldest_ns=oldest_ns,
        ingested=0 if ingested is None else ingested.last,
        removed=tables.warehouse.removals.read_spans(),
        tasks=max(spark.sparkContext.defaultParallelism, ceil(rows / ROWS_PER_TASK)),
    )


def _read_part(plan: ResultPlan, source: Source) -> Iterator[Sent]:
    name, what = source
    if isinstance(what, DataFile):
        yield from _send_keys("silver", _read_metered(plan, what), plan.tasks)
    elif name == "usage":
        yield from _send_keys("silver", _read_pending(plan, what), plan.tasks)
    else:
        rows = _read_outcomes(plan, what) if name == "results" else _read_dead_lettered(plan, what)
        yield from split_rows(name, rows, rows["seq"].to_numpy() % plan.tasks)


def _read_outcomes(plan: ResultPlan, ends: Ends) -> pa.Table:
    """Return each result's outcome, and whether it was acked."""
    rows: list[tuple[int, str, str, bool]] = []
    for message in _read_messages(plan.streams.results, ends):
        result = read_result(message, ANY).found
        if isinstance(result, ExecResult):
            reference = result.assignment_id or result.request_id or ""
            rows.append(
                (message.sequence, reference, result.status, message.sequence <= plan.streams.acked)
            )
    return _make_table(rows, ("seq", *_KEY, "is_acked"))


def _read_dead_lettered(plan: ResultPlan, ends: Ends) -> pa.Table:
    """Return the sequences of results that became dead letters."""
    sources = (
        _read_object(message.data).get("source")
        for message in _read_messages(plan.streams.dead_letters, ends)
    )
    name = plan.streams.results.facts.stream
    sequences = [
        (source["sequence"],)
        for source in sources
        if isinstance(source, dict) and source.get("stream") == name
    ]
    return _make_table(sequences, ("seq",))


def _drop_dead_lettered(plan: ResultPlan, _: int, sent: dict[str, list[pa.Table]]) -> list[Sent]:
    """Send the other results to the task of their key."""
    dead_letters = pa.concat_tables([_make_table([], ("seq",)), *sent.get("dead_letters", [])])[
        "seq"
    ]
    rows = pa.concat_tables([_make_table([], ("seq", *_KEY, "is_acked")), *sent.get("results", [])])
    return list(
        _send_keys(
            "results",
            rows.filter(pc.invert(pc.is_in(rows["seq"], dead_letters.combine_chunks()))),
            plan.tasks,
        )
    )


def _read_metered(plan: ResultPlan, file: DataFile) -> pa.Table:
    """Return what the events of a file meter. A result is owed to those that were metered since the
    oldest one.
    """
    rows = read_files(Storage(plan.warehouse), "silver", [file], (*_USED, "time"))
    stored = rows["time"].cast(pa.timestamp("us", rows["time"].type.tz)).cast(pa.int64())
    recent = pc.greater_equal(stored, -(-plan.oldest_ns // 1000)).to_pylist()
    metered_rows = (
        metered
        for row, is_recent in zip(rows.to_pylist(), recent, strict=True)
        for metered in _list_metered(row, is_recent=is_recent)
    )
    return _make_table(list(metered_rows), _METERED)


def _read_pending(plan: ResultPlan, ends: Ends) -> pa.Table:
    """Return what the events meter that are in the stream and not in the tables: not yet, or
    removed on purpose.
    """
    messages = (
        message
        for message in _read_messages(plan.streams.usage, ends)
        if _is_pending(plan, message.sequence)
    )
    bodies = (
        {**dict.fromkeys(_USED), **_read_object(message.data), "seq": message.sequence}
        for message in messages
    )
    return _make_table(
        [metered for body in bodies for metered in _list_metered(body, is_recent=False)], _METERED
    )


def _list_metered(event: Mapping[str, Any], *, is_recent: bool) -> Iterator[tuple[object, ...]]:
    """Yield a row for each reference by which a result of this event may be known; none for what
    meters no result.
    """
    tenant, assignment, status = event["tenant_id"], event["assignment_id"], event["status"]
    reference = assignment or event["request_id"]
    if event["adjustment"] is not None or not isinstance(reference, str):
        return
    by_status = identity_of(tenant, reference, status)
    event_id, label = event["event_id"] or by_status, f"{reference} {status}"
    is_owed = is_recent and event["event_type"] not in INVOCATIONS
    if assignment and event_id == assignment_identity(tenant, assignment):
        for name in dict.fromkeys((assignment, event["request_id"] or assignment)):
            yield event["seq"], name, None, is_owed, label
    elif event_id == by_status:
        yield event["seq"], reference, status, is_owed, label


def _is_pending(plan: ResultPlan, sequence: int) -> bool:
    return sequence > plan.ingested or plan.removed.touch(sequence, sequence)


def _send_keys(name: str, rows: pa.Table, tasks: int) -> Iterator[Sent]:
    """Send the rows to the task of their reference: what meters any status is where each of them
    is.
    """
    yield from split_rows(name, rows, hash_groups([rows["reference"].to_pylist()], tasks))


def _match_references(plan: ResultPlan, task: int, sent: dict[str, list[pa.Table]]) -> list[Sent]:
    """Tell which results of these references are metered, and send on which events have been heard
    of.
    """
    results = _fold_results(sent.get("results", []))
    heard = {*results, *((reference, None) for reference, _ in results)}
    usage = [
        row
        for table in sent.get("silver", [])
        for row in zip(*(table[name].to_pylist() for name in _METERED), strict=True)
    ]
    metered = {(reference, status) for _, reference, status, _, _ in usage}
    told = [
        (" ".join(key), key in metered or (key[0], None) in metered)
        for key, is_acked in results.items()
        if is_acked
    ]
    events = [
        (seq, is_owed, (reference, status) in heard, label)
        for seq, reference, status, is_owed, label in usage
    ]
    rows = _make_table(events, ("seq", "is_owed", "is_heard", "label"))
    return [
        (task, "results", encode_table(_make_table(told, ("label", "is_metered")))),
        *split_rows("silver", rows, rows["seq"].to_numpy() % plan.tasks),
    ]


def _fold_results(tables: Sequence[pa.Table]) -> dict[Key, bool]:
    """Return each outcome, and whether any of its results was acked."""
    results: dict[Key, bool] = {}
    for rows in tables:
        for reference, status, is_acked in zip(
            *(rows[column].to_pylist() for column in (*_KEY, "is_acked")), strict=True
        ):
            results[reference, status] = results.get((reference, status), False) or is_acked
    return results


def _compare(_: int, sent: dict[str, list[pa.Table]]) -> KeysFound:
    """Count the outcomes of one task, and its events: one that several references name is heard of
    by any of them.
    """
    results = [row for table in sent.get("results", []) for row in table.to_pylist()]
    unmetered = sorted(row["label"] for row in results if not row["is_metered"])
    waiting: dict[int, str] = {}
    heard: set[int] = set()
    for table in sent.get("silver", []):
        for row in table.to_pylist():
            waiting |= {row["seq"]: row["label"]} if row["is_owed"] else {}
            heard |= {row["seq"]} if row["is_heard"] else set()
    unheard = sorted(label for seq, label in waiting.items() if seq not in heard)
    return KeysFound(
        results=len(results),
        usage=len(waiting),
        without_usage=len(unmetered),
        without_result=len(unheard),
        names=(name_first(unmetered), name_first(unheard)),
    )


def _tell(parts: list[KeysFound]) -> ReconcileCheck:
    counts = ("results", "usage", "without_usage", "without_result")
    figures = {name: sum(getattr(part, name) for part in parts) for name in counts}
    says = (
        f"{figures['without_usage']} results without usage, {figures['without_result']} events "
        "without a result"
    )
    unmetered, unheard = (
        sorted(name for part in parts for name in part.names[side]) for side in (0, 1)
    )
    names = [
        *(f"{name}: no usage" for name in unmetered),
        *(f"{name}: no result" for name in unheard),
    ]
    return ReconcileCheck(RESULTS_CHECK, not names, says, figures, name_first(names))


def _make_table(rows: Sequence[tuple[object, ...]], names: Sequence[str]) -> pa.Table:
    columns = zip(*rows, strict=True) if rows else ([] for _ in names)
    return pa.table(
        {
            name: pa.array(list(column), _TYPES[name])
            for name, column in zip(names, columns, strict=True)
        }
    )


def _split(name: str, stream: OpenStream, first: int = 0) -> list[Source]:
    """Return the parts of a stream that a task each reads."""
    return [
        (name, ends) for ends in split_ends((max(first, stream.facts.first), stream.facts.last))
    ]


def _find_oldest(stream: OpenStream) -> int | None:
    """Return when the oldest message was stored, nanoseconds; None if there is none.

    It is of the answer that told the stream's first sequence: nothing is asked a second time.
    """
    if stream.facts.messages == 0:
        return None
    return nanos(stream.facts.first_at) // 1000 * 1000


def _read_ack_floor(results: OpenStream, durable: str) -> int:
    """Return the sequence up to which every result was acked."""
    with Broker(results.options) as broker:
        info = broker.run(broker.jetstream.consumer(results.facts.stream, durable))
    return int(info["ack_floor"]["stream_seq"]) if info is not None else 0


def _read_messages(stream: OpenStream, ends: Ends) -> Iterator[Message]:
    for batch in stream.messages(*ends):
        for row in batch.to_pylist():
            stored_ns = int(row["time"].timestamp() * 1e6) * 1000
            yield Message(
                row["subject"],
                row["data"],
                dict(row["headers"] or ()),
                row["stream"],
                "",
                row["seq"],
                stored_ns,
                1,
                "",
            )


def _read_object(data: bytes) -> dict[str, object]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
