"""The services on a real server: one answer to each request, no request delays another, found by
the service protocol.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from itertools import count

from nats.aio.client import Client

from router.config.service import AdminConfig
from router.delivery.wire.connection import Connection
from router.operate.admin import AdminServer, RequestGuard, Service, ServiceError
from router.operate.admin.service import Answer, RequestFields
from tests.support.admin import Json, call, code
from tests.support.beside import beside
from tests.support.delivery import connected
from tests.support.observability import capture_log
from tests.support.waiting import until

NUMBERS = count(1)


class Bench:
    """Services that answer, decline, fail and wait; each under a name of its own test's."""

    def __init__(self, connection: Connection, name: str, **rules: object) -> None:
        self.name = name
        self.go, self.waiting, self.echoed = asyncio.Event(), 0, 0
        offered = {
            "echo": self._echo,
            "decline": self._decline,
            "fail": self._fail,
            "wait": self._wait,
            "huge": self._huge,
        }
        services = [
            Service(f"{self.name}_{name}", f"says {name}", "{}", "{ok}", answer)
            for name, answer in offered.items()
        ]
        services.append(
            Service(
                f"{self.name}_each",
                "of every instance",
                "{}",
                "{ok}",
                self._echo,
                is_everywhere=True,
            )
        )
        self.station = AdminServer(connection, RequestGuard(), services, AdminConfig(**rules), "")  # type: ignore[arg-type]

    async def _echo(self, asked: RequestFields) -> Answer:
        self.echoed += 1
        return {"echo": asked.exclude()}

    async def _decline(self, asked: RequestFields) -> Answer:
        raise ServiceError("conflict", "another writer was faster", {"present": 3})

    async def _fail(self, asked: RequestFields) -> Answer:
        raise KeyError("a secret text")

    async def _wait(self, asked: RequestFields) -> Answer:
        self.waiting += 1
        await self.go.wait()
        return {}

    async def _huge(self, asked: RequestFields) -> Answer:
        return {"echo": "x" * 9_000_000}

    async def ask(self, nc: Client, name: str, **fields: object) -> Json:
        return await call(nc, f"{self.name}_{name}", **fields)

    async def stats(self, nc: Client, name: str) -> Json:
        told = json.loads((await nc.request("$SRV.STATS.router-admin")).data)
        return next(one for one in told["endpoints"] if one["name"] == f"{self.name}_{name}")


@contextlib.asynccontextmanager
async def serving(nats_url: str, name: str = "", **rules: object) -> AsyncIterator[Bench]:
    async with connected(nats_url) as connection:
        bench = Bench(connection, name or f"t{next(NUMBERS)}", **rules)
        async with beside(bench.station.run()):
            await until(lambda: bench.station.check.ok)
            yield bench


async def test_an_answer_says_ok(nc: Client, nats_url: str) -> None:
    async with serving(nats_url) as bench:
        assert await bench.ask(nc, "echo", a=1) == {"ok": True, "echo": {"a": 1}}


async def test_a_declined_request_is_told_why_in_the_body_and_in_the_protocols_headers(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url) as bench:
        answer = await nc.request(f"beamline.router.v1.admin.{bench.name}_decline", b"{}")
    error = {"code": "conflict", "message": "another writer was faster", "details": {"present": 3}}
    assert json.loads(answer.data) == {"ok": False, "error": error}
    assert (answer.headers or {})["Nats-Service-Error-Code"] == "409"


async def test_an_unexpected_exception_is_internal_and_logged_and_shows_no_secret(
    nc: Client, nats_url: str
) -> None:
    with capture_log("info") as lines:
        async with serving(nats_url) as bench:
            answer = await bench.ask(nc, "fail")
            assert (await bench.ask(nc, "echo"))["ok"] is True
    assert code(answer) == "internal"
    assert "secret" not in json.dumps(answer)
    assert [line["error"] for line in lines.all() if line["event"] == "service.failed"] == [
        "KeyError"
    ]


async def test_an_answer_above_the_connections_limit_is_told_and_ends_no_connection(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url) as bench:
        assert code(await bench.ask(nc, "huge")) == "internal"
        assert (await bench.ask(nc, "echo"))["ok"] is True


async def test_a_slow_request_delays_no_other_not_even_of_its_own_service(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url) as bench:
        first, second = (asyncio.create_task(bench.ask(nc, "wait")) for _ in range(2))
        await until(lambda: bench.waiting == 2)
        assert (await bench.ask(nc, "echo"))["ok"] is True
        bench.go.set()
        assert [(await one)["ok"] for one in (first, second)] == [True, True]


async def test_above_so_many_in_hand_a_request_is_told_to_come_again(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url, at_once=1) as bench:
        first = asyncio.create_task(bench.ask(nc, "wait"))
        await until(lambda: bench.waiting == 1)
        assert code(await bench.ask(nc, "echo")) == "overloaded"
        bench.go.set()
        assert (await first)["ok"] is True


async def test_a_request_in_hand_when_the_router_stops_is_answered(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url) as bench:
        asked = asyncio.create_task(bench.ask(nc, "wait"))
        await until(lambda: bench.waiting == 1)
    assert code(await asked) == "internal"


async def test_a_request_whose_answer_would_go_to_a_subject_of_ours_is_not_served(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url) as bench:
        heard = await nc.subscribe("beamline.victim")
        await nc.publish(
            f"beamline.router.v1.admin.{bench.name}_wait", b"{}", reply="beamline.victim"
        )
        await nc.flush()
        assert (await bench.ask(nc, "echo"))["ok"] is True
        assert (bench.waiting, heard.pending_msgs) == (0, 0)


async def test_one_of_two_instances_serves_a_request_and_each_of_them_one_that_is_for_all(
    nc: Client, nats_url: str
) -> None:
    async with serving(nats_url, "pair") as one, serving(nats_url, "pair") as other:
        for _ in range(20):
            await one.ask(nc, "echo")
        assert one.echoed + other.echoed == 20
        answers = await nc.subscribe(inbox := nc.new_inbox())
        await nc.publish("beamline.router.v1.admin.pair_each", b"{}", reply=inbox)
        await until(lambda: answers.pending_msgs == 2)


async def test_stats_count_requests_and_those_that_failed(nc: Client, nats_url: str) -> None:
    async with serving(nats_url) as bench:
        for name in ("echo", "echo", "decline"):
            await bench.ask(nc, name)
        echo, decline = await bench.stats(nc, "echo"), await bench.stats(nc, "decline")
    assert (echo["num_requests"], echo["num_errors"]) == (2, 0)
    assert (decline["num_requests"], decline["num_errors"], decline["last_error"]) == (
        1,
        1,
        "conflict",
    )
    assert echo["average_processing_time"] > 0
