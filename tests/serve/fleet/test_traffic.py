"""`router serve --processes 2` as it is, under live traffic: a reload, a process that is killed, a
parent that is killed.
"""

import asyncio
import os
import signal
from collections.abc import Iterator

import orjson
import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.broker import Broker
from tests.support.fleet import FleetProcess, is_there, live_traffic
from tests.support.service import settings_for
from tests.support.stories import (
    SILENCE_S,
    Inboxes,
    MessageRecorder,
    is_settled,
    read_dead_letters,
    read_metric,
)
from tests.support.waiting import until

PREFIX = "fleet"
ACKED = "router_jetstream_ack_total"
SOME = 50  # requests: enough to be in every process
PATIENCE_S = 30  # two interpreters start in that time, whatever else the machine does


@pytest.fixture(scope="module")
def fleet(broker: Broker) -> Iterator[FleetProcess]:
    """One for all of them: the last test ends it."""
    process = FleetProcess.on(
        broker.url, PREFIX, **{"decide.ack_wait_ms": 1_000, "decide.heartbeat_ms": 300}
    ).start()
    yield process
    process.remove()


@pytest.fixture
def settings(nats_url: str) -> Settings:
    return settings_for(nats_url, PREFIX)


@pytest.mark.slow  # two interpreters start in it, one after the other, beside the traffic
async def test_a_reload_under_traffic_answers_every_request_once(
    nc: Client, settings: Settings, fleet: FleetProcess
) -> None:
    """Story: SIGHUP replaces both processes, plain inboxes, one answer for each ack, and no counter
    is lost with those that left.
    """
    assert fleet.ready["processes"] == 2
    http, before, counted = (
        fleet.ready["http"],
        await every_pid(fleet),
        await read_metric(fleet.ready["http"], ACKED),
    )
    inboxes = await Inboxes.under(nc, "reload")
    async with live_traffic(nc, settings, inboxes) as asked:
        await until(lambda: len(inboxes) > SOME, within_s=PATIENCE_S)
        fleet.send(signal.SIGHUP)
        await until(lambda: replaced(http, 2), within_s=PATIENCE_S, what="two processes replaced")
    await until(lambda: is_settled(nc, settings))
    await asyncio.sleep(SILENCE_S)

    assert set(inboxes.heard) == set(asked)
    await until(
        lambda: counts(http, counted + len(inboxes)),
        what="an ack for each answer, counted by both generations",
    )
    after = await every_pid(fleet)
    assert not set(before.values()) & set(after.values())
    await until(
        lambda: not any(map(is_there, before.values())),
        within_s=PATIENCE_S,
        what="the old processes to end",
    )


@pytest.mark.slow  # an interpreter starts in it, beside the traffic
async def test_a_killed_process_costs_no_answer_and_no_counter_falls(
    nc: Client, settings: Settings, fleet: FleetProcess
) -> None:
    """Story: its messages in flight are redelivered to another process: an answer may come twice,
    never none, never a different one.

    The process that replaces it has not heard the requests published before its start: those that
    it decides, because the killed one had them or they waited in the stream, are answered on the
    reply subject (docs/reference/contracts.md#matching).
    """
    http, before = fleet.ready["http"], await every_pid(fleet)
    inboxes, elsewhere = (
        await Inboxes.under(nc, "killed"),
        await MessageRecorder.on(nc, f"{settings.decide.subject}.reply"),
    )

    def missing() -> set[str]:
        answers = [orjson.loads(answer) for heard in elsewhere.heard.values() for answer in heard]
        found = {
            inboxes.of(answer["context"]["request_id"].removeprefix("r-")) for answer in answers
        }
        return set(asked) - set(inboxes.heard) - found

    async with live_traffic(nc, settings, inboxes) as asked:
        await until(lambda: len(inboxes) > SOME, within_s=PATIENCE_S)
        seen = [await read_metric(http, ACKED)]
        os.kill(before["process-1"], signal.SIGKILL)
        while (await fleet.pids()).get("process-1", before["process-1"]) == before["process-1"]:
            seen.append(await read_metric(http, ACKED))
        later = len(asked)
        await until(lambda: len(asked) > later + SOME, within_s=PATIENCE_S)
    await until(lambda: not missing(), what="every request to be answered")
    await until(lambda: is_settled(nc, settings))
    seen.append(await read_metric(http, ACKED))

    assert set(inboxes.heard) <= set(asked)
    assert set(asked[later:]) <= set(inboxes.heard), (
        "who asks once it is replaced is answered where it asked"
    )
    assert [answers for answers in inboxes.heard.values() if len(set(answers)) > 1] == []
    assert await read_dead_letters(nc, settings) == []
    assert seen == sorted(seen)
    assert (await every_pid(fleet))["process-2"] == before["process-2"]


async def test_processes_whose_parent_is_killed_drain_and_end(
    nc: Client, settings: Settings, fleet: FleetProcess
) -> None:
    left = (await every_pid(fleet)).values()
    assert all(map(is_there, left))
    fleet.kill()
    try:
        await until(
            lambda: not any(map(is_there, left)),
            within_s=PATIENCE_S,
            what="both processes to end by themselves",
        )
    finally:
        for pid in filter(is_there, left):
            os.kill(pid, signal.SIGKILL)
    await until(
        lambda: is_settled(nc, settings), what="no message is left open by those that ended"
    )


async def every_pid(fleet: FleetProcess) -> dict[str, int]:
    """Of both slots. On a busy machine a process may be silent for a while, and is not ready
    meanwhile.
    """
    found: dict[str, int] = {}

    async def are_ready() -> bool:
        found.clear()
        found.update(await fleet.pids())
        return len(found) == 2

    await until(are_ready, within_s=PATIENCE_S, what="both processes to be ready")
    return found


async def replaced(http: str, times: int) -> bool:
    return await read_metric(http, "router_process_restarts_total") >= times


async def counts(http: str, expected: float) -> bool:
    """At least: what came again while the machine was busy is acknowledged again."""
    return await read_metric(http, ACKED) >= expected
