"""Any request-reply server on a real broker: one answer to each request, within its limits, also at
its end.
"""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator

import pytest
from msgspec import Struct
from nats.aio.client import Client

from router.delivery.wire.calls.request_server import ReplyAddresses, RequestServer
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers
from tests.support.delivery import connected
from tests.support.observability import capture_log
from tests.support.waiting import until

NUMBERS = itertools.count(1)


class Errand(Struct, frozen=True):
    """One request: what it says decides what happens to it."""

    reply: str
    text: str


class ErrandServer(RequestServer[Errand]):
    """Answers `echo` at once, `wait` when `go` is set, and fails on the rest."""

    def __init__(self, connection: Connection, *, at_once: int = 8, drain_s: float = 0.0) -> None:
        super().__init__(connection, "errands", at_once=at_once, drain_s=drain_s)
        self.subject = f"errands.{next(NUMBERS)}"
        self.addresses = ReplyAddresses()
        self.go = asyncio.Event()
        self.waiting = 0
        self.ended: list[str] = []

    def on_message(self, subject: str, reply: str, data: bytes, headers: Headers | None) -> None:
        if self.addresses.may_reach(reply):
            self.begin(Errand(reply, data.decode()))

    async def answer(self, request: Errand) -> None:
        if request.text == "wait":
            self.waiting += 1
            await self.go.wait()
        elif request.text != "echo":
            raise KeyError("a secret text")
        self._connection.publish_nowait(request.reply, request.text.encode())

    def refuse(self, request: Errand, reason: str) -> None:
        self._connection.publish_nowait(request.reply, reason.encode())

    def on_end(self, request: Errand) -> None:
        self.ended.append(request.text)


@contextlib.asynccontextmanager
async def serving(
    url: str, *, at_once: int = 8, drain_s: float = 0.0
) -> AsyncIterator[ErrandServer]:
    async with connected(url) as connection:
        server = ErrandServer(connection, at_once=at_once, drain_s=drain_s)
        task = asyncio.create_task(
            server.serve(server.on_message, server.subject, queue_group="errands")
        )
        await until(lambda: server.is_serving)
        await connection.flush()
        try:
            yield server
        finally:
            task.cancel()
            await asyncio.wait({task})
            await connection.flush()


async def ask(nc: Client, server: ErrandServer, text: str) -> str:
    return (await nc.request(server.subject, text.encode(), timeout=60)).data.decode()


async def test_a_waiting_request_delays_no_other(nc: Client, nats_url: str) -> None:
    async with serving(nats_url) as server:
        first = asyncio.create_task(ask(nc, server, "wait"))
        await until(lambda: server.waiting == 1)
        assert await ask(nc, server, "echo") == "echo"
        server.go.set()
        assert await first == "wait"
        await until(lambda: server.ended == ["echo", "wait"])


async def test_a_request_above_the_limit_is_refused_and_one_after_an_end_is_not(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url, at_once=1) as server:
        first = asyncio.create_task(ask(nc, server, "wait"))
        await until(lambda: server.waiting == 1)
        assert await ask(nc, server, "echo") == "overloaded"
        server.go.set()
        assert [await first, await ask(nc, server, "echo")] == ["wait", "echo"]


async def test_an_unexpected_exception_is_logged_refused_and_ends_nothing_else(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url) as server:
        with capture_log("error") as lines:
            assert await ask(nc, server, "fail") == "failed"
        assert (lines.only()["event"], lines.only()["service"], lines.only()["error"]) == (
            "service.failed",
            "errands",
            "KeyError",
        )
        assert await ask(nc, server, "echo") == "echo"
        await until(lambda: server.ended == ["fail", "echo"])


@pytest.mark.parametrize(("drain_s", "expected"), [(0.0, "stopping"), (5.0, "wait")])
async def test_a_request_in_flight_at_the_end_is_answered(
    nc: Client, nats_url: str, drain_s: float, expected: str
) -> None:
    async with serving(nats_url, drain_s=drain_s) as server:
        request = asyncio.create_task(ask(nc, server, "wait"))
        await until(lambda: server.waiting == 1)
        if drain_s:
            asyncio.get_running_loop().call_later(0.01, server.go.set)
    assert await request == expected
    assert (server.ended, server.is_serving) == (["wait"], False)


async def test_a_request_that_came_in_the_last_moment_is_answered_too(nats_url: str) -> None:
    """Its task is cancelled before its first step."""
    async with connected(nats_url) as connection:
        server = ErrandServer(connection)
        inbox = connection.new_inbox()
        answers: list[bytes] = []
        await connection.subscribe_direct(
            inbox, lambda _subject, _reply, data, _headers: answers.append(data)
        )
        server.begin(Errand(inbox, "wait"))
        await server.drain()
        await until(lambda: answers == [b"stopping"])


async def test_the_instances_of_a_queue_group_share_the_requests(nc: Client, nats_url: str) -> None:
    async with serving(nats_url) as one, serving(nats_url) as other:
        task = asyncio.create_task(
            other.serve(other.on_message, one.subject, queue_group="errands")
        )
        await asyncio.gather(*(ask(nc, one, "echo") for _ in range(40)))
        task.cancel()
        await asyncio.wait({task})
        await until(lambda: len(one.ended) + len(other.ended) == 40)


@pytest.mark.parametrize(
    ("address", "is_instance", "may_reach"),
    [
        ("_INBOX.abc.1", False, True),
        ("_R_.abc", False, True),
        ("_INBOX.own.1", False, False),
        ("_INBOX.own.1", True, True),
        ("", False, False),
        ("", True, False),
        ("beamline.router.v1.decide", False, False),
        ("$JS.API.STREAM.PURGE.X", False, False),
        ("_INBOX.>", False, False),
        ("_INBOX.a b", False, False),
        ("_INBOX.*", False, False),
    ],
)
def test_only_inboxes_are_answered_and_each_other_address_is_counted(
    address: str, is_instance: bool, may_reach: bool
) -> None:
    refused: list[str] = []
    addresses = ReplyAddresses(own=("_INBOX.own.",), on_refused=refused.append)
    assert addresses.may_reach(address, is_instance=is_instance) == may_reach
    assert refused == ([address] if address and not may_reach else [])
