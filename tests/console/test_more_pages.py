"""The pages beside the first ones: topology, settings, workers, providers, decisions to search,
usage as charts.
"""

import asyncio
import threading
from collections.abc import AsyncIterator

import orjson
import pyarrow as pa
import pytest

from router.config import Settings
from router.contracts.heartbeat import HEARTBEAT_SUBJECTS
from router.core.clock import now_ms, steady
from router.delivery.wire.api import JetStream
from router.lake.page import _draw, _list_days
from router.lake.report import UsageReport
from router.shell.page_data import BarChart, InvalidAddress, PageParams
from router.shell.rendering import _environment
from tests.support.console import Console, a_console, console_settings
from tests.support.console_data import ConsoleData, fill_console
from tests.support.service import POLICIES, a_router
from tests.support.waiting import until


@pytest.fixture
async def console(settings: Settings, jetstream: JetStream) -> AsyncIterator[Console]:
    async with a_console(settings) as running:
        await until(lambda: running.server.link.workers_cause == "")
        yield running


async def _has_missing(console: Console) -> bool:
    return (await console.export("/doctor/topology"))[0]["state"] != "as declared"


async def test_the_topology_names_what_is_missing_first(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    assert {row["state"] for row in await console.export("/doctor/topology")} == {"as declared"}
    await jetstream.ask(f"CONSUMER.DELETE.{settings.streams.decide.name}.{settings.decide.durable}")
    await until(lambda: _has_missing(console))  # an answer is fresh for a second
    rows = await console.export("/doctor/topology")
    assert (rows[0]["state"], rows[0]["kind"], rows[1]["state"]) == (
        "missing",
        "consumer",
        "as declared",
    )
    assert "router topology apply" in await console.read("/doctor/topology")


async def test_settings_tell_where_they_come_from_and_no_secret(
    settings: Settings, jetstream: JetStream
) -> None:
    secret = console_settings(
        settings.nats.url[0], admin__api_key="s3cret-s3cret-s3cret-s3cret-s3cret"
    )
    async with a_console(secret) as console:
        console.server.origins |= {"admin.api_key": "ROUTER_ADMIN__API_KEY"}
        first, *others = await console.export("/doctor/settings")
        assert (first["setting"], first["source"], first["value"]) == (
            "admin.api_key",
            "ROUTER_ADMIN__API_KEY",
            "***",
        )
        assert {row["source"] for row in others} == {"default"}
        assert "s3cret" not in await console.read("/doctor/settings")


async def test_a_silent_worker_is_named_first(console: Console, jetstream: JetStream) -> None:
    for name in ("w-1", "w-2"):
        beat = {
            "worker_id": name,
            "tenant_id": "acme",
            "status": "busy",
            "load": 0.5,
            "timestamp": now_ms(),
            "interval_ms": 60_000,
        }
        await jetstream.connection.publish(HEARTBEAT_SUBJECTS[0], orjson.dumps(beat))
    workers = console.server.link.workers
    await until(lambda: len(workers) == 2)
    (first, _), (second, _) = workers.list_workers(steady())
    workers.on_heartbeat(first.beat, steady() - 181)
    rows = await console.export("/workers")
    assert [(row["worker"], row["status"]) for row in rows] == [
        (first.beat.worker_id, "silent"),
        (second.beat.worker_id, "busy"),
    ]
    assert await console.export("/workers?tenant=other") == []


async def test_decisions_are_searched_and_each_leads_to_why(
    console: Console, settings: Settings, jetstream: JetStream
) -> None:
    await fill_console(
        jetstream,
        settings,
        ConsoleData(letters=0, violations=0, policies=0, extensions=0, assignments=40),
    )
    assert len(await console.export("/decisions")) == 40
    assert {row["tenant"] for row in await console.export("/decisions?tenant=acme")} == {"acme"}
    (found,) = await console.export("/decisions?provider=openai&tenant=acme&q=request-000000")
    assert (found["provider"], found["policy"]) == ("openai", "default, version 3")
    assert "/decisions?tenant=acme&amp;request_id=request-000000" in await console.read(
        "/decisions?request_id=request-000000"
    )
    assert await console.export("/decisions?provider=nowhere") == []


async def test_providers_say_when_no_router_answers_and_show_what_one_knows(
    settings: Settings, jetstream: JetStream
) -> None:
    router = console_settings(settings.nats.url[0], policies__dir=POLICIES)
    async with a_console(router) as console:
        await until(lambda: console.server.link.workers_cause == "")
        assert "No router answered" in await console.read("/extensions/providers")
        async with a_router(router):
            await until(lambda: says(console, "results of assignments tell"))
        assert (await console.get("/extensions/providers?tenant=.")).status_code == 400


def test_a_day_whose_adjustments_exceed_its_cost_has_no_bar() -> None:
    """A height below 0 is no SVG."""
    for bars in ((("2026-02-01", 2.0), ("2026-02-02", -7.5)), (("2026-02-01", -1.0),)):
        template = "{% import '_parts.html' as parts %}{{ parts.bars(chart) }}"
        drawn = _environment().from_string(template).render(chart=BarChart("Cost a day", bars))
        assert 'height="-' not in drawn
        assert f'height="0.000"><title>{bars[-1][0]}: {bars[-1][1]:g}' in drawn


async def says(console: Console, text: str) -> bool:
    return text in await console.read("/extensions/providers")


def test_a_period_is_bounded_and_its_days_are_drawn_with_their_gaps() -> None:
    assert _list_days(PageParams({}, {})) == ()
    assert list(_list_days(PageParams({"from": "2026-02-27", "to": "2026-03-01"}, {}))) == [
        "2026-02-27",
        "2026-02-28",
        "2026-03-01",
    ]
    assert list(_list_days(PageParams({"to": "2026-02-27"}, {}))) == ["2026-02-27"]
    for wrong in (
        {"from": "soon"},
        {"from": "2026-02-02", "to": "2026-02-01"},
        {"from": "2020-01-01", "to": "2026-01-01"},
    ):
        with pytest.raises(InvalidAddress):
            _list_days(PageParams(wrong, {}))
    rows = pa.table(
        {"day": ["2026-02-01", "2026-02-03", "2026-02-03"], "count": [3, 3, 3], "cost": [1, 1, 1]}
    )
    events, cost = _draw(UsageReport(("tenant_id", "day"), rows, None))
    assert list(events.bars) == [("2026-02-01", 3), ("2026-02-02", 0), ("2026-02-03", 6)]
    assert [value for _, value in cost.bars] == [1.0, 0.0, 2.0]
    assert _draw(UsageReport(("tenant_id",), pa.table({"count": [3], "cost": [1]}), None)) == ()


async def test_a_bucket_that_answers_late_holds_up_no_other_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each report that was given up held one of the threads that render every page, and compare
    passwords.
    """
    go_on = threading.Event()
    monkeypatch.setattr("router.lake.page._read_report", lambda *_: go_on.wait(300) and None)
    monkeypatch.setattr("router.console.slow_pages.READ_WITHIN_S", 0.1)
    settings = console_settings("nats://127.0.0.1:1", nats__connect_timeout_ms=50)
    try:
        async with a_console(settings) as console:
            for number in range(12):
                await console.get(f"/usage?tenant=t{number}")
            async with asyncio.timeout(60):
                assert "Doctor" in await console.read("/doctor")
            go_on.set()
    finally:
        go_on.set()
