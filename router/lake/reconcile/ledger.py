"""Results that were acknowledged, against the usage that was metered for them, by assignment or request and by status.

A result that became a letter was not metered, and one that nobody can read became a letter. Usage that is in the stream and
not yet in the tables counts as metered. Usage older than the oldest result that is still stored has lost its other half.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import orjson
import pyarrow as pa
from msgspec import Struct

from router.contracts.given import MAX_INT64
from router.contracts.result import ExecResult, read_result
from router.contracts.worker import WorkerMessageLimits
from router.lake.reconcile.checks import Check, named
from router.lake.reconcile.columns import Tables
from router.lake.reconcile.stream import Reached, reached
from router.lake.source.broker import Broker
from router.lake.source.options import SourceOptions
from router.message import Message

NAME = "results acked = usage"
ANY = WorkerMessageLimits(
    max_cost=inf, max_timestamp_age_ms=MAX_INT64, max_timestamp_ahead_ms=MAX_INT64
)  # what was too much became a letter
_USED = ("assignment_id", "request_id", "status")

Key = tuple[str, str]  # assignment or request, status


class Ledger(Struct, frozen=True):
    """The streams beside the tables. Results are acknowledged up to and with sequence `acked`."""

    results: Reached
    acked: int
    usage: Reached
    letters: Reached


def ledger_of(results: SourceOptions, usage: SourceOptions, letters: SourceOptions, durable: str) -> Ledger:
    """In this order: usage and letters are stored before a result is acknowledged, so what is looked at later has them.

    Raises BrokerUnavailable, and Misconfigured where there is no such stream.
    """
    sent = reached(results)
    acked = _ack_floor(sent, durable)
    return Ledger(sent, acked, reached(usage), reached(letters))


def check_ledger(tables: Tables, ledger: Ledger) -> Check:
    """Both ways: a result without usage, usage without a result."""
    if not ledger.results.facts.messages:
        return Check(NAME, None, "there are no results in the stream")
    oldest_ns, results = _results(ledger)
    metered, recent = _metered(tables, ledger, oldest_ns)
    unmetered = sorted(key for key, acked in results.items() if acked and key not in metered)
    unheard = sorted(key for key in recent if key not in results)
    figures = {"results": sum(results.values()), "usage": len(recent), "without_usage": len(unmetered), "without_result": len(unheard)}
    says = f"{len(unmetered)} results without usage, {len(unheard)} events without a result"
    names = [*(f"{key[0]} {key[1]}: no usage" for key in unmetered), *(f"{key[0]} {key[1]}: no result" for key in unheard)]
    return Check(NAME, not names, says, figures, named(names))


def _results(ledger: Ledger) -> tuple[int, dict[Key, bool]]:
    """The oldest result's time, and each outcome: True once it was acknowledged and is no letter."""
    letters = _lettered(ledger)
    oldest = 0
    found: dict[Key, bool] = {}
    for message in _messages(ledger.results):
        oldest = oldest or message.stored_ns
        if message.sequence in letters:
            continue
        result = read_result(message, ANY).found
        if isinstance(result, ExecResult):
            key = (result.assignment_id or result.request_id or "", result.status)
            found[key] = found.get(key, False) or message.sequence <= ledger.acked
    return oldest, found


def _metered(tables: Tables, ledger: Ledger, oldest_ns: int) -> tuple[set[Key], set[Key]]:
    """Every outcome that was metered; of those, the ones metered since the oldest result."""
    all_of_them: set[Key] = set()
    recent: set[Key] = set()
    for rows in tables.each("silver", [*_USED, "time"]):
        times = rows["time"].cast(pa.timestamp("us", rows["time"].type.tz)).cast(pa.int64()).to_pylist()
        for assignment, request, status, time_us in zip(*(rows[name].to_pylist() for name in _USED), times, strict=True):
            key = (assignment or request, status)
            all_of_them.add(key)
            if time_us * 1000 >= oldest_ns:
                recent.add(key)
    return all_of_them | set(_not_ingested(tables, ledger)), recent


def _not_ingested(tables: Tables, ledger: Ledger) -> Iterator[Key]:
    ingested = tables.warehouse.ingested()
    after = ingested.last if ingested is not None and ingested.last is not None else 0
    for message in _messages(ledger.usage, after + 1):
        body = _object(message.data)
        yield str(body.get("assignment_id") or body.get("request_id")), str(body.get("status"))


def _lettered(ledger: Ledger) -> set[int]:
    """Sequences of results that became letters."""
    sources = (_object(message.data).get("source") for message in _messages(ledger.letters))
    name = ledger.results.facts.stream
    return {source["sequence"] for source in sources if isinstance(source, dict) and source.get("stream") == name}


def _ack_floor(results: Reached, durable: str) -> int:
    """Up to here every result was acknowledged."""
    with Broker(results.options) as broker:
        info = broker.run(broker.jetstream.consumer(results.facts.stream, durable))
    return int(info["ack_floor"]["stream_seq"]) if info is not None else 0


def _messages(stream: Reached, first: int = 1) -> Iterator[Message]:
    for batch in stream.messages(first, stream.facts.last):
        for row in batch.to_pylist():
            stored_ns = int(row["time"].timestamp() * 1e6) * 1000
            yield Message(row["subject"], row["data"], dict(row["headers"] or ()), row["stream"], "", row["seq"], stored_ns, 1, "")


def _object(data: bytes) -> dict[str, object]:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return {}
    return body if isinstance(body, dict) else {}
