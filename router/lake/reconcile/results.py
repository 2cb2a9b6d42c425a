"""Compare the acked results with the usage that was metered for them, by assignment or request and by status.

A result that became a dead letter was not metered; an unreadable result became a dead letter. Usage that is in the stream and
not yet in the tables counts as metered. Usage that is older than the oldest stored result cannot be compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import orjson
import pyarrow as pa
from msgspec import Struct

from router.contracts.field_readers import MAX_INT64
from router.contracts.result import ExecResult, read_result
from router.contracts.worker import WorkerMessageLimits
from router.core.message import Message
from router.lake.reconcile.checks import ReconcileCheck, name_first
from router.lake.reconcile.snapshot import WarehouseSnapshot
from router.lake.reconcile.stream import OpenStream, open_stream
from router.lake.source.broker import Broker
from router.lake.source.options import SourceOptions

RESULTS_CHECK = "results acked = usage"
ANY = WorkerMessageLimits(
    max_cost=inf, max_timestamp_age_ms=MAX_INT64, max_timestamp_ahead_ms=MAX_INT64
)  # what was above the limits became a dead letter
_USED = ("assignment_id", "request_id", "status")

Key = tuple[str, str]  # assignment or request, status


class ResultStreams(Struct, frozen=True):
    """The streams to compare with the tables. Results are acked up to and including sequence `acked`."""

    results: OpenStream
    acked: int
    usage: OpenStream
    dead_letters: OpenStream


def open_result_streams(results: SourceOptions, usage: SourceOptions, letters: SourceOptions, durable: str) -> ResultStreams:
    """Open the streams in this order: usage and dead letters are stored before a result is acked, so the later ones have them.

    Raises BrokerUnavailable, and Misconfigured if a stream does not exist.
    """
    sent = open_stream(results)
    acked = _read_ack_floor(sent, durable)
    return ResultStreams(sent, acked, open_stream(usage), open_stream(letters))


def check_results(tables: WarehouseSnapshot, streams: ResultStreams) -> ReconcileCheck:
    """Check both ways: results without usage, and usage without a result."""
    if not streams.results.facts.messages:
        return ReconcileCheck(RESULTS_CHECK, None, "there are no results in the stream")
    oldest_ns, results = _read_results(streams)
    metered, recent = _read_metered(tables, streams, oldest_ns)
    unmetered = sorted(key for key, acked in results.items() if acked and key not in metered)
    unheard = sorted(key for key in recent if key not in results)
    figures = {"results": sum(results.values()), "usage": len(recent), "without_usage": len(unmetered), "without_result": len(unheard)}
    says = f"{len(unmetered)} results without usage, {len(unheard)} events without a result"
    names = [*(f"{key[0]} {key[1]}: no usage" for key in unmetered), *(f"{key[0]} {key[1]}: no result" for key in unheard)]
    return ReconcileCheck(RESULTS_CHECK, not names, says, figures, name_first(names))


def _read_results(streams: ResultStreams) -> tuple[int, dict[Key, bool]]:
    """Return the time of the oldest result, and each outcome: True if it was acked and is no dead letter."""
    letters = _read_dead_lettered(streams)
    oldest = 0
    outcomes: dict[Key, bool] = {}
    for message in _read_messages(streams.results):
        oldest = oldest or message.stored_ns
        if message.sequence in letters:
            continue
        result = read_result(message, ANY).found
        if isinstance(result, ExecResult):
            key = (result.assignment_id or result.request_id or "", result.status)
            outcomes[key] = outcomes.get(key, False) or message.sequence <= streams.acked
    return oldest, outcomes


def _read_metered(tables: WarehouseSnapshot, streams: ResultStreams, oldest_ns: int) -> tuple[set[Key], set[Key]]:
    """Return every outcome that was metered, and those of them that were metered since the oldest result."""
    all_of_them: set[Key] = set()
    recent: set[Key] = set()
    for rows in tables.read_each("silver", [*_USED, "time"]):
        times = rows["time"].cast(pa.timestamp("us", rows["time"].type.tz)).cast(pa.int64()).to_pylist()
        for assignment, request, status, time_us in zip(*(rows[name].to_pylist() for name in _USED), times, strict=True):
            key = (assignment or request, status)
            all_of_them.add(key)
            if time_us * 1000 >= oldest_ns:
                recent.add(key)
    return all_of_them | set(_read_pending(tables, streams)), recent


def _read_pending(tables: WarehouseSnapshot, streams: ResultStreams) -> Iterator[Key]:
    """Yield usage that is in the stream and not in the tables: not yet, or removed on purpose."""
    ingested = tables.warehouse.last_progress()
    after = 0 if ingested is None else ingested.last
    removed = tables.warehouse.removals.read_spans()
    first = int(removed.firsts[0]) if len(removed.firsts) else after + 1
    for message in _read_messages(streams.usage, min(first, after + 1)):
        if message.sequence <= after and not removed.touch(message.sequence, message.sequence):
            continue
        body = _read_object(message.data)
        yield str(body.get("assignment_id") or body.get("request_id")), str(body.get("status"))


def _read_dead_lettered(streams: ResultStreams) -> set[int]:
    """Return the sequences of results that became dead letters."""
    sources = (_read_object(message.data).get("source") for message in _read_messages(streams.dead_letters))
    name = streams.results.facts.stream
    return {source["sequence"] for source in sources if isinstance(source, dict) and source.get("stream") == name}


def _read_ack_floor(results: OpenStream, durable: str) -> int:
    """Return the sequence up to which every result was acked."""
    with Broker(results.options) as broker:
        info = broker.run(broker.jetstream.consumer(results.facts.stream, durable))
    return int(info["ack_floor"]["stream_seq"]) if info is not None else 0


def _read_messages(stream: OpenStream, first: int = 1) -> Iterator[Message]:
    for batch in stream.messages(first, stream.facts.last):
        for row in batch.to_pylist():
            stored_ns = int(row["time"].timestamp() * 1e6) * 1000
            yield Message(row["subject"], row["data"], dict(row["headers"] or ()), row["stream"], "", row["seq"], stored_ns, 1, "")


def _read_object(data: bytes) -> dict[str, object]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
