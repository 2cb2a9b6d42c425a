"""What a message costs, counted: publishes, bytes, writes, memory that stays, commits. A guard
where time cannot be one.

The test runs the bench's own sides on a real server and counts. A figure that differs here comes
from a change of the code: if the change is meant, write the new figure here.
"""

import gc
import sys
from pathlib import Path

import pytest

from bench import worker
from bench.broker import a_broker
from bench.sides import alone, metering, store, working
from bench.sides.agents import Counter, a_delivery
from bench.sides.router import TAKING_ACKS, a_router, settled
from tests.support.agents import a_batch_bench
from tests.support.socket_tap import SocketTap, open_socket_tap
from tests.support.waiting import until

pytestmark = pytest.mark.usefixtures("no_probes")

COUNT = 1_000
ANSWERS, ACKS, USAGE = "beamline.router.v1.decide.reply", "$JS.ACK.", "beamline.usage.v1.metered"
PULLS, LOOKUPS = "$JS.API.CONSUMER.MSG.NEXT.", "$JS.API.DIRECT.GET."
KINDS = (ANSWERS, ACKS, USAGE, PULLS, LOOKUPS)
RECORDS, ASSIGNMENTS = "$KV.ROUTER_ASSIGNMENTS_KNOWN.", "caf.exec.assign.v1"
PUSHED = (*KINDS, RECORDS, ASSIGNMENTS)
TAKEN, RESULTS = "caf.exec.assign.v1.ack", "caf.exec.result.v1"
WORKED = (TAKEN, RESULTS, ACKS, PULLS)
# questions of a start, about one for each stream, bucket and consumer, and pulls: the more, the
# busier the machine
AT_START = 200
# However long a request waits on a busy machine, there is no overload, in which it may be answered
# twice, it does not expire, and no effect has the headers of a batch.
NEVER_LATE = {
    "effects.batches": False,
    "admission.fair_after_ms": 3_600_000,
    "admission.overloaded_after_ms": 3_600_000,
    "admission.patience_ms": 3_600_000,
}


def unheard(**_: str) -> None: ...


async def test_a_decision_is_one_answer_and_one_acknowledgement() -> None:
    async with a_broker() as url:
        await store.fill(unheard, url=url, count=COUNT)
        with open_socket_tap() as tap:
            async with a_router(url, lambda _: None, NEVER_LATE) as service:
                await until(lambda: settled(service)() >= COUNT)
    published, size = tap.published(KINDS), tap.bytes(KINDS)
    assert (published[ANSWERS], published[ACKS], published[USAGE], published[LOOKUPS]) == (
        COUNT,
        COUNT,
        0,
        0,
    )
    assert _others(tap) <= AT_START
    assert round(size[ANSWERS] / COUNT) == 398
    assert 90 <= size[ACKS] / COUNT <= 95  # its subject tells how many are left
    # twelve where nothing else runs; a pause of the loop or of the server adds some
    assert published[PULLS] <= COUNT / 5
    assert tap.writes <= COUNT / 2  # what is said within a turn of the loop is one write


async def test_a_pushed_request_is_one_record_one_assignment_one_answer_and_one_acknowledgement() -> (
    None
):
    """Without a listener: one reads requests ahead of their delivery, and a few are then begun
    twice.
    """
    async with a_broker() as url:
        await store.fill(unheard, url=url, count=COUNT, is_pushed=True)
        with open_socket_tap() as tap:
            async with a_router(
                url, lambda _: None, {**NEVER_LATE, "reply.listener": False}
            ) as service:
                await until(lambda: settled(service)() >= COUNT)
    published, size = tap.published(PUSHED), tap.bytes(PUSHED)
    assert (published[RECORDS], published[ASSIGNMENTS], published[ANSWERS], published[ACKS]) == (
        COUNT,
        COUNT,
        COUNT,
        COUNT,
    )
    assert published.total() - sum(published[kind] for kind in PUSHED) <= AT_START
    assert 1100 <= size[RECORDS] / COUNT <= 1120  # an inbox of the connection's own is in it
    assert 865 <= size[ASSIGNMENTS] / COUNT <= 880
    assert tap.writes <= COUNT / 2


async def test_a_result_is_one_usage_event_and_one_acknowledgement_and_shares_its_lookup() -> None:
    async with a_broker() as url:
        await metering.fill(unheard, url=url, count=COUNT, form="json", is_known=False)
        with open_socket_tap() as tap:
            async with a_router(url, lambda _: None, NEVER_LATE) as service:
                durable = service.settings.results.durable
                await until(lambda: service.metrics.acks.get((durable,), 0) >= COUNT)
    published, size = tap.published(KINDS), tap.bytes(KINDS)
    assert (published[USAGE], published[ACKS], published[ANSWERS]) == (COUNT, COUNT, 0)
    assert _others(tap) <= AT_START
    # an inbox of the connection's own is in it, and the mark
    assert 428 <= size[USAGE] / COUNT <= 440
    assert published[LOOKUPS] <= COUNT / 5
    assert tap.writes <= COUNT / 2


async def test_an_assignment_is_one_acknowledgement_one_result_and_one_ack_of_a_worker() -> None:
    async with a_broker(TAKING_ACKS) as url:
        await store.fill_assignments(unheard, url=url, count=COUNT)
        with open_socket_tap() as tap:
            await working.backlog(unheard, url=url, **worker.from_tenth(url, COUNT))
    published, size = tap.published(WORKED), tap.bytes(WORKED)
    assert (published[TAKEN], published[RESULTS], published[ACKS]) == (COUNT, COUNT, COUNT)
    assert published.total() - sum(published[kind] for kind in WORKED) <= AT_START
    assert 385 <= size[TAKEN] / COUNT <= 392
    # an inbox of the connection's own is in it, on a slow disk the headers of batches, too
    assert 540 <= size[RESULTS] / COUNT <= 600
    assert published[PULLS] <= COUNT / 5
    assert tap.writes <= COUNT / 2


def _others(tap: SocketTap) -> int:
    published = tap.published(KINDS)
    return published.total() - sum(published[kind] for kind in KINDS)


async def test_a_decided_request_leaves_a_dozen_blocks_of_memory_behind_at_most() -> None:
    """Its replay. Sessions, labels and the caches of the start are there after two thousand; a
    listener's would be gone again.
    """
    left, seen = [], []
    async with (
        a_broker() as url,
        a_router(url, lambda _: None, {**NEVER_LATE, "reply.listener": False}) as service,
    ):
        for first in (0, COUNT, 2 * COUNT):
            await store.fill(unheard, url=url, first=first, count=first + COUNT)
            await until(lambda first=first: settled(service)() >= first + COUNT)
            seen.append(gc.get_count()[0])
            left.append(_blocks())
    assert 7 <= (left[2] - left[1]) / COUNT <= 12  # ten today
    # in the collector's sight: nothing of it, and what goes on beside it is less the faster the
    # machine
    assert min(seen[1:]) < COUNT


def _blocks() -> int:
    gc.collect()
    return sys.getallocatedblocks()


async def test_the_engine_keeps_nothing_and_holds_little() -> None:
    figures = await alone.engine(unheard, count=1)
    assert max(figures["sticky_blocks"], figures["draw_blocks"]) <= 0.1
    assert figures["sticky_bytes"] <= 128
    assert figures["draw_bytes"] <= 900


def test_a_batch_of_commands_is_two_commits_however_many_they_are(tmp_path: Path) -> None:
    told: list[str] = []
    with a_batch_bench(tmp_path / "s.db", Counter()) as bench:
        bench.database.connection.set_trace_callback(told.append)
        bench.batch.handle([a_delivery(number) for number in range(100)])
    assert told.count("COMMIT") == 2  # received, then applied: each waits for the disk once
    # one statement writes a handful of rows
    assert sum(not statement.startswith("SELECT") for statement in told) <= 12
