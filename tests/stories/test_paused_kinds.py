"""An operator pauses a durable of any kind of process (`nats consumer pause`): each says so, by
name, and goes on when it is resumed.
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace
from nats.aio.client import Client

from router.sdk import StepResult
from router.sdk.agent import AgentPages
from tests.support import inbox as inboxes
from tests.support.agents import a_command, an_agent, publish_until_stored
from tests.support.bus import QUICK, a_bus, an_envelope, run_consumer
from tests.support.counting_agent import SUBJECT
from tests.support.observability import capture_log
from tests.support.postgres import Postgres
from tests.support.router_streams import (
    AlertRecorder,
    a_result,
    publish_result,
    results_are_settled,
)
from tests.support.sdk import a_body, run_workers, some_worker_streams
from tests.support.service import a_router, settings_for
from tests.support.stories import is_ready, read_page
from tests.support.waiting import until

# a pull request that is made anew counts as a sign of life
PATIENT = replace(QUICK, pull_expires=30.0)
WITHIN_S = 20.0  # a durable is looked at when nothing was delivered for five seconds


async def pause(nc: Client, stream: str, durable: str) -> None:
    await _ask_for_pause(
        nc, stream, durable, {"pause_until": (datetime.now(UTC) + timedelta(hours=1)).isoformat()}
    )


async def resume(nc: Client, stream: str, durable: str) -> None:
    await _ask_for_pause(nc, stream, durable, {})


async def _ask_for_pause(nc: Client, stream: str, durable: str, body: dict[str, str]) -> None:
    answer = json.loads(
        (
            await nc.request(
                f"$JS.API.CONSUMER.PAUSE.{stream}.{durable}", json.dumps(body).encode(), timeout=5
            )
        ).data
    )
    assert answer.get("paused", False) is bool(body), answer


async def wait_until_told(
    lines: Callable[[], list[dict[str, object]]], durable: str, event: str
) -> None:
    def is_told() -> bool:
        return any(
            (line["event"], line["consumer"]) == (event, durable)
            for line in lines()
            if "consumer" in line
        )

    await until(is_told, within_s=WITHIN_S, what=f"{event} of {durable}")


@pytest.mark.parametrize("section", ["results", "acks"])
async def test_a_router_whose_reports_are_held_back_says_so(
    nc: Client, nats_url: str, prefix: str, section: str
) -> None:
    settings = settings_for(nats_url, prefix, acks__enabled=True)
    stream, durable = getattr(settings.streams, section).name, getattr(settings, section).durable
    alarms = await AlertRecorder.heard_on(nc)
    async with a_router(settings) as router:
        await pause(nc, stream, durable)

        async def says_so() -> bool:
            status, body = await read_page(router.ready.http, "/readyz")
            return (
                status == 503
                and "consumer_paused" in body
                and f"nats consumer resume {stream} {durable}" in body
            )

        await until(says_so, within_s=WITHIN_S, what="readiness names the pause")
        await until(
            lambda: f"consumer_paused:{durable}" in alarms.causes("critical"), within_s=WITHIN_S
        )
        await publish_result(nc, settings, a_result("meanwhile"))
        await resume(nc, stream, durable)
        await until(lambda: results_are_settled(nc, settings), within_s=WITHIN_S)
        await until(
            lambda: is_ready(router.ready.http), within_s=WITHIN_S, what="it is ready again"
        )


async def test_a_worker_whose_assignments_are_held_back_says_so(
    nc: Client, nats_url: str, prefix: str
) -> None:
    async with (
        some_worker_streams(nats_url, prefix) as place,
        run_workers(place.worker(lambda _: StepResult(output="done"))),
    ):
        with capture_log() as lines:
            await pause(nc, place.topology.stream, "caf-worker")
            await wait_until_told(lines.all, "caf-worker", "consumer.paused_by_server")
            await place.push(a_body())
            await resume(nc, place.topology.stream, "caf-worker")
            assert len(await place.results()) == 1
            await wait_until_told(lines.all, "caf-worker", "consumer.resumed_by_server")


async def test_a_consumer_of_the_bus_whose_events_are_held_back_says_so(
    nc: Client, nats_url: str, prefix: str
) -> None:
    taken: list[str] = []
    async with (
        a_bus(nats_url, prefix) as bus,
        run_consumer(bus, lambda envelope: taken.append(envelope.message_id), options=PATIENT),
    ):
        stream, durable = f"{prefix}-events", bus.settings.durable("projector")
        await until(lambda: bus.jetstream.consumer(stream, durable))
        with capture_log() as lines:
            await pause(nc, stream, durable)
            await wait_until_told(lines.all, durable, "consumer.paused_by_server")
            await bus.publisher.event(an_envelope())
            await resume(nc, stream, durable)
            await until(lambda: taken == ["evt_1"], within_s=WITHIN_S)


async def test_an_inbox_whose_events_are_held_back_says_so(
    nc: Client, nats_url: str, postgres: Postgres
) -> None:
    stream, durable = inboxes.EVENTS.name, "sea__from_vibespro"
    dsn = await postgres.database()
    async with inboxes.an_inbox(nats_url, dsn, inboxes.record) as running:
        health = lambda: running.inbox.consumer.health  # noqa: E731
        await until(lambda: health().is_ready)
        with capture_log() as lines:
            await pause(nc, stream, durable)
            await wait_until_told(lines.all, durable, "consumer.paused_by_server")
            assert not health().is_ready
            assert f"consumer_paused: the durable {durable} is paused until" in health().detail
            await inboxes.publish(nc, [1])
            await resume(nc, stream, durable)
            await until(lambda: inboxes.is_settled(nc), within_s=WITHIN_S)
            await until(lambda: health().is_ready, within_s=WITHIN_S)


async def test_an_agent_whose_commands_are_held_back_says_so(
    nc: Client, nats_url: str, tmp_path: Path
) -> None:
    stream, durable = "MESHFORGE_COMMANDS", "witness_consumer"
    async with an_agent(nats_url, tmp_path / "witness.db", ack_wait=30.0) as running:
        pages = AgentPages("witness", running.runtime, ("127.0.0.1", 0))
        with capture_log() as lines:
            await pause(nc, stream, durable)
            await wait_until_told(lines.all, durable, "consumer.paused_by_server")
            check = pages._checks()["consumers"]
            assert not check.ok
            assert f"consumer_paused: the durable {durable} is paused until" in check.detail
            assert f"consumer_paused:{durable}" in running.causes
            await publish_until_stored(nc.jetstream(), a_command("k-1"), SUBJECT)
            await resume(nc, stream, durable)
            await until(lambda: running.stats.applied == 1, within_s=WITHIN_S)
            await until(lambda: pages._checks()["consumers"].ok, within_s=WITHIN_S)
