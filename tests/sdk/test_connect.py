"""The SDK's classes connect by a URL, or by those of a cluster."""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from router import Agent, StepResult, Worker
from router.config import load
from router.delivery.wire.connection import Connection
from router.sdk import WorkerTopology
from router.sdk.connect import held_connection, open_connection
from router.sdk.extension import ExtensionServer, pre
from tests.support.waiting import until

NOTHING = "nats://127.0.0.1:1"


async def test_of_several_urls_the_one_that_answers_is_taken(nats_url: str) -> None:
    connection = await open_connection(f"{NOTHING},{nats_url}", "several")
    assert connection.is_connected
    await connection.close()


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A host that accepts connections and never says a word, as one does that vanished behind a
    proxy.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"nats://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("by", ["urls", "settings"])
async def test_each_of_several_urls_gets_its_time(
    nats_url: str, silent_url: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the two that are silent are tried first
    monkeypatch.setattr("nats.aio.client.shuffle", lambda _: None)
    urls = f"{silent_url},{silent_url.replace('127.0.0.1', 'localhost')},{nats_url}"
    given = (
        urls
        if by == "urls"
        else load(None, {"nats.url": urls, "nats.connect_timeout_ms": 2_000}, {}).settings.nats
    )
    connection = await open_connection(given, "test")
    assert connection.is_connected
    await connection.close()


async def test_a_connection_is_closed_also_when_its_last_bytes_cannot_be_confirmed(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        raise TimeoutError

    async with held_connection(nats_url, "test") as connection:
        monkeypatch.setattr(connection, "flush", hang)
    assert connection.is_closed


@pytest.mark.parametrize("kind", ["worker", "extensions", "agent"])
async def test_what_serves_closes_its_connection_so(
    nats_url: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[Connection] = []

    async def remember(*arguments: Any, **told: Any) -> Connection:
        opened.append(await open_connection(*arguments, **told))
        return opened[0]

    serving = _serve(kind, nats_url, tmp_path)
    monkeypatch.setattr("router.sdk.connect.open_connection", remember)
    ready = asyncio.Event()
    task = asyncio.create_task(serving.work(lambda _: ready.set()))
    # the worker may wait for its stream for ever
    await until(lambda: opened and (kind == "worker" or ready.is_set()))

    async def hang(*_: object, **__: object) -> None:
        raise TimeoutError

    monkeypatch.setattr(opened[0], "flush", hang)
    task.cancel()
    with suppress(asyncio.CancelledError, Exception):  # a consumer's own flush fails, too
        await task
    assert opened[0].is_closed


def _serve(kind: str, url: str, directory: Path) -> Worker | ExtensionServer | Agent:
    if kind == "worker":
        return Worker(
            url,
            lambda _: StepResult(),
            worker_id="w-1",
            topology=WorkerTopology(stream="NEVER_MADE"),
        )
    if kind == "extensions":
        return ExtensionServer(pre("closes")(lambda _: None), nats=url)
    return Agent(url, _Idle(), store=directory / "idle.db")


class _Idle:
    name = "idle_closes"

    def receive(self, envelope: object) -> None: ...

    def apply(self, ctx: object, envelope: object) -> None: ...
