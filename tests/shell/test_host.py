"""The frame of a process: what it closes last, and when it says that it is ready."""

import asyncio
import contextlib

import pytest

from router.delivery.wire.connection import Connection
from router.process.observability import MetricRegistry
from router.process.supervision import Supervisor
from router.sdk.connect import build_held_connection
from router.shell.host import ProcessHost
from tests.support.observability import capture_log
from tests.support.waiting import until


async def test_connections_close_after_the_work_the_last_one_first_and_that_is_no_loss(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[object] = []
    close = Connection.close

    async def remember(connection: Connection) -> None:
        order.append(connection)
        await close(connection)

    monkeypatch.setattr(Connection, "close", remember)
    held = [build_held_connection(nats_url, name) for name in ("first", "second")]
    with capture_log() as lines:
        async with ProcessHost().hold(*held) as (first, second):
            order.append("the work ends")
    assert order == ["the work ends", second, first]
    assert first.is_closed
    assert second.is_closed
    assert "broker.disconnected" not in [line["event"] for line in lines.all()]


async def test_it_says_once_that_it_is_ready_when_its_pages_and_all_else_are_there() -> None:
    host, told, is_there = ProcessHost(), list[str](), asyncio.Event()
    tree = Supervisor("host", (host.pages("127.0.0.1", 0, MetricRegistry(), dict),))
    running = asyncio.create_task(host.run(tree, lambda: told.append(host.url), is_there.is_set))
    await until(lambda: host.url)
    assert told == []
    is_there.set()
    await until(lambda: told)
    running.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await running
    assert told == [host.url]
