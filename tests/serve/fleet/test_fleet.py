"""A parent and its processes, which are fakes that start at once: restarts, refusals, shutdown, and
what the pages show.
"""

import asyncio
import errno
import os
import re
import signal
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from router.config import Settings, load
from router.core.errors import Misconfigured, describe_causes
from router.process.supervision import Intensity, SupervisionFailed
from router.serve.fleet import Fleet, process, process_slot
from tests.support.fleet import is_there
from tests.support.observability import capture_log
from tests.support.waiting import until

FAKE = str(Path(__file__).parents[2] / "support" / "fake_child.py")


def two_processes() -> Settings:
    return load(None, {"processes": 2, "http.port": 0, "node_id": "here"}, {}).settings


class Ways:
    """How processes started from now on behave."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.are("well")

    def are(self, way: str) -> None:
        self._monkeypatch.setattr(process, "PROGRAM", (FAKE, way))


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> Ways:
    monkeypatch.setattr(process_slot, "POLL_INTERVAL_S", 0.02)
    monkeypatch.setattr(process, "MAX_PENDING_REQUESTS", 2)
    return Ways(monkeypatch)


@asynccontextmanager
async def a_fleet() -> AsyncIterator[tuple[Fleet, "asyncio.Task[None]"]]:
    """Ready."""
    ready = asyncio.Event()
    fleet = Fleet(two_processes, lambda nats_url, http: ready.set())
    task = asyncio.create_task(fleet.run())
    try:
        async with asyncio.timeout(120):
            await ready.wait()
        yield fleet, task
    finally:
        task.cancel()
        await asyncio.wait({task})


def pids(fleet: Fleet) -> list[int]:
    """0: it is not ready. Never signal one of these: a signal to 0 goes to every process of the
    test run.
    """
    return [
        int(check.detail.split()[-1]) if check.ok else 0 for check in fleet.readiness().values()
    ]


async def wait_for_pids(fleet: Fleet) -> list[int]:
    """Of both, once both are ready: on a busy machine one that is silent for a while is not ready
    meanwhile.
    """
    found: list[int] = []

    def are_ready() -> bool:
        found[:] = pids(fleet)
        return all(found)

    await until(are_ready, what="both processes to be ready")
    return found


async def scraped(fleet: Fleet) -> dict[str, float]:
    """Every sample's sum over its labels."""
    text = (await fleet.exposition()).decode()
    found: dict[str, float] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found[sample.name] = found.get(sample.name, 0) + sample.value
    return found


async def scrape_both(fleet: Fleet) -> dict[str, float]:
    """The same, once the gauges of both processes are in it; those of a silent one are left out for
    a while.
    """
    found: dict[str, float] = {}

    async def are_there() -> bool:
        found.clear()
        found.update(await scraped(fleet))
        assert found["there"] <= 2, "gauges of a process that is not the current one of its slot"
        return found["there"] == 2

    await until(are_there, what="the gauges of two processes")
    return found


async def test_a_process_that_is_killed_is_restarted_and_no_counter_falls(ways: Ways) -> None:
    with capture_log() as lines:
        async with a_fleet() as (fleet, _):
            first, second = await wait_for_pids(fleet)
            before = await scrape_both(fleet)
            assert before["asked_total"] >= 2
            os.kill(first, signal.SIGKILL)
            seen = [before["asked_total"]]
            while pids(fleet)[0] in (0, first):
                seen.append((await scraped(fleet))["asked_total"])
            seen.append((await scraped(fleet))["asked_total"])
            assert seen == sorted(seen)
            assert (await wait_for_pids(fleet))[1] == second
            after = await scraped(fleet)
            assert after["process_cpu_seconds_total"] >= before["process_cpu_seconds_total"]
            assert after["router_process_restarts_total"] == 1
        (crash,) = [line for line in lines.all() if line["event"] == "child.crashed"]
        assert f"process-1, process {first}, was killed by SIGKILL" in str(crash["error"])


async def test_a_reload_replaces_every_process_and_counts_on(ways: Ways) -> None:
    async with a_fleet() as (fleet, _):
        old, before = await wait_for_pids(fleet), await scraped(fleet)
        fleet.reload()
        await until(lambda: not set(pids(fleet)) & {0, *old})
        await until(lambda: not any(map(is_there, old)))
        after = await scrape_both(fleet)
        assert after["asked_total"] > before["asked_total"]


async def test_gauges_are_those_of_the_current_process_while_the_old_one_drains(ways: Ways) -> None:
    ways.are("deaf")
    async with a_fleet() as (fleet, _):
        old = await wait_for_pids(fleet)
        ways.are("well")
        fleet.reload()
        await until(lambda: pids(fleet)[0] not in (0, old[0]))
        await scrape_both(fleet)
        assert is_there(old[0])
        for pid in old:
            os.kill(pid, signal.SIGKILL)


@pytest.mark.parametrize(
    ("way", "error"),
    [
        ("misconfigured", "topology: the server refused it"),
        ("crashes", r"process-1, process \d+, ended with status 3"),
    ],
)
async def test_a_replacement_that_does_not_get_ready_leaves_the_old_one_in_its_slot(
    ways: Ways, way: str, error: str
) -> None:
    with capture_log() as lines:
        async with a_fleet() as (fleet, task):
            old = await wait_for_pids(fleet)
            ways.are(way)
            fleet.reload()
            await until(lambda: any(line["event"] == "reload.refused" for line in lines.all()))
            assert (await wait_for_pids(fleet), task.done()) == (old, False)
        (refusal,) = [line for line in lines.all() if line["event"] == "reload.refused"]
        assert refusal["process"] == "process-1"
        assert re.fullmatch(error, str(refusal["error"]))


async def test_a_process_that_hangs_is_killed_after_its_deadlines_and_the_reload_goes_on(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "stop_timeout_s", lambda settings: 0.3)
    with capture_log() as lines:
        async with a_fleet() as (fleet, _):
            hung = (await wait_for_pids(fleet))[0]
            os.kill(hung, signal.SIGSTOP)
            fleet.reload()
            await until(lambda: any(line["event"] == "reload.ended" for line in lines.all()))
            assert not is_there(hung)
        killed = [line for line in lines.all() if line["event"] == "process.killed"]
        assert ("process-1", hung) in [(line["process"], line["pid"]) for line in killed]


async def test_a_replacement_that_hangs_before_it_is_ready_refuses_the_reload_and_does_not_hold_it(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_slot, "READY_TIMEOUT_S", 0.25)
    monkeypatch.setattr(process, "stop_timeout_s", lambda settings: 0.1)
    with capture_log() as lines:
        async with a_fleet() as (fleet, _):
            old = await wait_for_pids(fleet)
            ways.are("mute")
            fleet.reload()
            await until(lambda: lines.of("reload.refused"))
            assert await wait_for_pids(fleet) == old
            assert "it was not ready within" in str(lines.of("reload.refused")[0]["error"])


async def test_a_reload_for_which_no_process_can_be_started_is_refused_and_forgotten(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def none_left(*_: object, **__: object) -> None:
        raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))

    with capture_log() as lines:
        async with a_fleet() as (fleet, _):
            old = await wait_for_pids(fleet)
            with monkeypatch.context() as full:
                full.setattr(asyncio, "create_subprocess_exec", none_left)
                fleet.reload()
                await until(lambda: any(line["event"] == "reload.refused" for line in lines.all()))
            assert await wait_for_pids(fleet) == old
            assert [len(place._processes) for place in fleet._slots] == [1, 1]
            fleet.reload()
            await until(lambda: not set(pids(fleet)) & {0, *old})
        assert "process-1 could not be started" in str(
            next(line["error"] for line in lines.all() if line["event"] == "reload.refused")
        )
        assert "child.crashed" not in [line["event"] for line in lines.all()]


async def test_a_process_that_an_operator_terminates_has_not_crashed(ways: Ways) -> None:
    async with a_fleet() as (fleet, _):
        (first, _) = await wait_for_pids(fleet)
        os.kill(first, signal.SIGTERM)
        await until(lambda: pids(fleet)[0] not in (0, first))
        assert dict(fleet.metrics.restarts) == {("1", "end"): 1}


@pytest.mark.parametrize(("processes", "restarts"), [(1, 5), (3, 15), (32, 20)])
def test_more_processes_may_end_more_often_but_a_storm_is_still_one(
    processes: int, restarts: int
) -> None:
    tree = Fleet(two_processes).tree(load(None, {"processes": processes}, {}).settings)
    assert tree.intensity == Intensity(restarts, 30)


async def test_a_setting_that_one_process_refuses_ends_all_with_its_message(ways: Ways) -> None:
    ways.are("misconfigured")
    with pytest.raises(Misconfigured, match=r"^topology: the server refused it$"):
        await Fleet(two_processes).run()


async def test_a_storm_of_crashes_ends_everything_and_says_how_they_ended(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.serve.fleet.fleet.RESTARTS_PER_PROCESS", 2)
    ways.are("crashes")
    with capture_log(), pytest.raises(SupervisionFailed) as failed:
        await Fleet(two_processes).run()
    assert "fleet gave up" in describe_causes(failed.value)
    assert "ended with status 3" in describe_causes(failed.value)


async def test_a_silent_process_delays_no_scrape_and_is_named(
    ways: Ways, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.serve.fleet.fleet.SCRAPE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(process, "CHILD_SILENCE_S", 0.3)
    async with a_fleet() as (fleet, _):
        stopped = (await wait_for_pids(fleet))[1]
        before = await scraped(fleet)
        os.kill(stopped, signal.SIGSTOP)
        try:
            began = time.perf_counter()
            during = await scraped(fleet)
            assert time.perf_counter() - began >= 0.1
            assert during["asked_total"] >= before["asked_total"]
            await until(lambda: not fleet.readiness()["process-2"].ok)
            assert (
                f"process {stopped} has said nothing for" in fleet.readiness()["process-2"].detail
            )
            await until(
                lambda: has_one_process(fleet), what="the other one to be the only one that counts"
            )
        finally:
            os.kill(stopped, signal.SIGCONT)
        await until(lambda: fleet.readiness()["process-2"].ok)


async def has_one_process(fleet: Fleet) -> bool:
    """On a busy machine the one that runs may be silent for a moment, too."""
    found = await scraped(fleet)
    return fleet.readiness()["process-1"].ok and (found["there"], found["router_process_up"]) == (
        1,
        1,
    )


async def test_a_second_cancellation_kills_the_processes(ways: Ways) -> None:
    ways.are("deaf")
    async with a_fleet() as (fleet, task):
        left = await wait_for_pids(fleet)
        task.cancel()
        await asyncio.wait({task}, timeout=0.2)
        assert (task.done(), [is_there(pid) for pid in left]) == (False, [True, True])
        task.cancel()
        await asyncio.wait({task}, timeout=60)
        await until(lambda: not any(map(is_there, left)))
