"""What an invocation costs: by its price, also where its stream is cut or nothing came back; and
what it may spend of a budget.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from decimal import Decimal
from pathlib import Path

import pytest
from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router import Client
from router.core.errors import Unanswered
from router.sdk.providers import InvocationFailed
from router.work.invocations import invocation_bill
from tests.support.budgets import BudgetTown, write_policies
from tests.support.prices import put_prices
from tests.support.providers import (
    Streaming,
    an_entry,
    answers,
    echoed,
    hangs,
    read_until_failure,
    register,
    serve_provider,
)
from tests.support.router_streams import AlertRecorder, read_stream, read_usage
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json
from tests.support.waiting import until

ASKED: Json = {"tenant_id": "acme", "provider_id": "echo", "prompt": "hello"}
# of a million tokens: 0.001 a token of input, 0.01 of output
PRICE: Json = {"provider": "echo", "input": "1000", "output": "10000"}


@pytest.fixture
async def town(
    nc: Nats, nats_url: str, prefix: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[BudgetTown]:
    monkeypatch.setattr("router.work.invocations.provider_server.DRAIN_S", 0.0)
    settings = settings_for(nats_url, prefix)
    async with a_router(settings, write_policies(tmp_path)) as router:
        await register(router, an_entry(), an_entry("hasty", timeout_ms=500))
        yield BudgetTown(nc, [router], nats_url)


@pytest.fixture
def router(town: BudgetTown) -> Running:
    return town.routers[0]


async def read_one(nc: Nats, router: Running) -> Json:
    async def is_one() -> bool:
        return len(await read_usage(nc, router.settings)) == 1

    await until(is_one, what="a usage event")
    (event,) = await read_usage(nc, router.settings)
    return event


async def test_an_answer_is_billed_by_the_price_and_not_by_what_its_provider_says(
    nc: Nats, router: Running, client: Client
) -> None:
    await put_prices(router, PRICE)
    async with serve_provider(nc, answers):  # it tells 3 and 2 tokens, and a cost of 0.25
        response = await client.invoke(**ASKED)
    event = await read_one(nc, router)
    told = {"cost": 0.023, "input_tokens": 3, "output_tokens": 2, "price": "echo#1"}
    assert event | told == event
    assert "estimated" not in event
    assert response.cost == 0.023
    assert response.metadata == {
        "cost": "0.023",
        "prompt_tokens": "3",
        "completion_tokens": "2",
        "price": "echo#1",
    }


async def test_a_told_cost_wins_where_the_price_trusts_it(
    nc: Nats, router: Running, client: Client
) -> None:
    await put_prices(router, {**PRICE, "trust": "told"})
    async with serve_provider(nc, answers):
        assert (await client.invoke(**ASKED)).cost == 0.25


async def _tells_too_many_tokens(message: Msg) -> None:
    usage = {"prompt_tokens": 999_999_999, "completion_tokens": 999_999_999}
    await message.respond(
        json.dumps({"provider_id": "echo", "output": "short", "usage": usage}).encode()
    )


async def _tells_a_huge_cost(message: Msg) -> None:
    await message.respond(
        json.dumps({"provider_id": "echo", "output": "short", "cost": 1e9}).encode()
    )


@pytest.mark.parametrize(
    ("price", "told", "most"),
    [
        # a hundred times the 500 tokens that an answer may be expected to have
        (PRICE, _tells_too_many_tokens, 100 * 5.01),
        ({**PRICE, "trust": "told"}, _tells_a_huge_cost, 100 * 5.01),
        # the floor
        ({"provider": "echo", "per_request": "0.0001", "trust": "told"}, _tells_a_huge_cost, 0.01),
    ],
    ids=["tokens", "cost", "floor"],
)
async def test_what_a_provider_tells_far_above_what_passed_by_is_booked_at_its_bound_and_held(  # noqa: PLR0917 - three fixtures
    nc: Nats,
    router: Running,
    client: Client,
    price: Json,
    told: Callable[[Msg], Awaitable[None]],
    most: float,
) -> None:
    """A price says what a token costs, and the provider's word alone how many there were."""
    await put_prices(router, price)
    async with serve_provider(nc, told):
        response = await client.invoke(**ASKED)
    event = await read_one(nc, router)
    assert 0 < event["cost"] <= most
    assert event["told_cost"] > 1e6
    assert response.cost == event["cost"]
    (notice,) = [
        json.loads(data) for _, data, _ in await read_stream(nc, router.settings.streams.held.name)
    ]
    assert notice["event_id"] == event["event_id"]


async def test_a_stream_that_is_cut_is_billed_for_what_passed_by(
    nc: Nats, router: Running, client: Client
) -> None:
    await put_prices(router, PRICE)
    source, heard = Streaming(nc, 1_000_000), 0
    async with serve_provider(nc, source):
        async for _ in client.invoke_stream(**ASKED, request_id="r-1"):
            heard += 1
            if heard == 20:
                break
        await asyncio.wait_for(source.gone.wait(), 60)
    event = await read_one(nc, router)
    assert (event["status"], event["estimated"], event["price"]) == ("cancelled", True, "echo#1")
    assert event["output_tokens"] >= heard / 2  # a piece is a number and a space
    assert event["cost"] >= 0.01 * heard / 2


class Counting:
    """Sends pieces of eleven characters until the server says that one has no listener; `heard`:
    those that had one.
    """

    def __init__(self, nc: Nats) -> None:
        self._nc = nc
        self.heard: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._unheard = 0

    async def __call__(self, message: Msg) -> None:
        self._task = asyncio.create_task(self._send(message.reply))

    async def _send(self, to: str) -> None:
        inbox, sent = self._nc.new_inbox(), 0
        ear = await self._nc.subscribe(inbox, cb=self._on_unheard)
        while not self._unheard:
            sent += 10
            for _ in range(10):
                await self._nc.publish(to, b'{"data": "ten letters", "done": false}', reply=inbox)
            await asyncio.sleep(0)
        await self._nc.flush()  # then the server has told of each piece
        await ear.unsubscribe()
        self.heard.set_result(sent - self._unheard)

    async def _on_unheard(self, _: Msg) -> None:
        self._unheard += 1


@pytest.mark.parametrize(
    "ends", ["its reader leaves", "its budget is spent", "its time is over", "its router stops"]
)
async def test_a_cut_stream_is_billed_for_each_piece_that_the_router_got(
    nc: Nats, town: BudgetTown, router: Running, client: Client, ends: str
) -> None:
    """Also for those that come between its end and the moment in which the server knows of it."""
    # 0.001 a character
    await put_prices(router, {"provider": "echo", "output": "1000", "characters_per_token": "1"})
    if ends == "its budget is spent":
        await town.put("--amount", "2", "--window", "month")
    source, timeout = Counting(nc), 1.0 if ends == "its time is over" else 60.0
    async with serve_provider(nc, source):
        with suppress(InvocationFailed, Unanswered):
            async for _ in client.invoke_stream(**ASKED, request_id="r-1", timeout=timeout):
                if ends == "its reader leaves":
                    break
                if ends == "its router stops":
                    await router.stop()
        heard = await asyncio.wait_for(source.heard, 60)
    event = await read_one(nc, router)
    assert (event["output_tokens"], event["cost"]) == (11 * heard, pytest.approx(0.011 * heard))


async def test_without_a_price_a_told_cost_is_booked_at_its_bound_and_the_rest_is_held(
    nc: Nats, router: Running, client: Client
) -> None:
    """No operator has said what it may cost: one answer must not empty a budget."""

    async def asks_for_much(message: Msg) -> None:
        await message.respond(json.dumps({"output": "gold", "cost": 1e9}).encode())

    alerts = await AlertRecorder.heard_on(nc)
    async with serve_provider(nc, asks_for_much):
        response = await client.invoke(**ASKED)
    event = await read_one(nc, router)
    assert (event["cost"], event["told_cost"], response.cost) == (1.0, 1e9, 1.0)
    (notice,) = [
        json.loads(data) for _, data, _ in await read_stream(nc, router.settings.streams.held.name)
    ]
    assert (notice["event_id"], notice["told_cost"]) == (event["event_id"], 1e9)
    await until(lambda: alerts.causes("warning"))
    assert alerts.causes("warning") == ["cost_held:acme"]


@pytest.mark.parametrize("is_stream", [False, True])
async def test_what_its_provider_never_answers_costs_its_input(
    nc: Nats, router: Running, client: Client, *, is_stream: bool
) -> None:
    await put_prices(router, {**PRICE, "provider": "hasty"})
    asked = {**ASKED, "provider_id": "hasty"}
    async with serve_provider(nc, hangs, "beamline.provider.hasty.v1"):
        if is_stream:
            await read_until_failure(client.invoke_stream(**asked))
        else:
            assert (await client.invoke(**asked)).status == "timeout"
    event = await read_one(nc, router)
    assert (event["status"], event["estimated"]) == ("timeout", True)
    assert 0.001 <= event["cost"] <= 0.01


async def test_invocations_reserve_as_decisions_do_and_what_has_no_room_is_refused(
    town: BudgetTown, router: Running, client: Client
) -> None:
    await put_prices(router, PRICE)  # 500 tokens are expected: 5.00
    await town.put("--amount", "12", "--window", "month")
    async with serve_provider(town.nc, hangs) as asked:
        first = [asyncio.create_task(client.invoke(**ASKED)) for _ in range(2)]
        await until(lambda: len(asked) == 2)
        refused = await client.invoke(**ASKED)
        for message in asked:
            await message.respond(
                echoed(message, usage={"prompt_tokens": 2, "completion_tokens": 500})
            )
        assert all(response.ok for response in await asyncio.gather(*first))
    assert (refused.status, refused.error_code, refused.cost) == ("error", "budget_exceeded", 0.0)
    assert refused.metadata["budget"] == "month"
    assert int(refused.metadata["retry_after_ms"]) > 0
    shown = await town.wait_until_settled("month", 2)
    assert Decimal(shown["settled"]) == Decimal("10.004")
    stored = await read_stream(town.nc, town.usage)
    assert all("month#" in headers["Router-Reservation"] for _, _, headers in stored)


async def test_a_price_of_nothing_reserves_nothing(
    town: BudgetTown, router: Running, client: Client
) -> None:
    """0.01 is reserved only where there is no price."""
    await put_prices(router, {**PRICE, "input": "0", "output": "0"})
    await town.put("--amount", "0.001", "--window", "month")
    async with serve_provider(town.nc, answers):
        response = await client.invoke(**ASKED)
    assert (response.error_code, response.cost) == (None, 0.0)


async def test_a_price_by_time_reserves_time(
    town: BudgetTown, router: Running, client: Client
) -> None:
    await put_prices(router, {"provider": "echo", "per_second": "1"})  # ten seconds are expected
    await town.put("--amount", "12", "--window", "month")
    async with serve_provider(town.nc, hangs) as asked:
        first = asyncio.create_task(client.invoke(**ASKED))
        await until(lambda: asked)
        refused = await client.invoke(**ASKED, timeout=5.0)
        for message in asked:
            await message.respond(echoed(message))
        assert (await first).ok
    assert refused.error_code == "budget_exceeded"


async def test_a_stream_that_takes_longer_than_expected_spends_its_budget_by_time(
    town: BudgetTown, router: Running, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(invocation_bill, "USUAL_SECONDS", 0.05)
    await put_prices(router, {"provider": "echo", "per_second": "100"})
    # 5.00 are expected, and the stream would take a minute at least
    await town.put("--amount", "6", "--window", "month")
    async with serve_provider(town.nc, Streaming(town.nc, 10_000_000)):
        _, failed = await read_until_failure(client.invoke_stream(**ASKED))
    assert failed.code == "budget_exceeded"


async def test_a_stream_whose_budget_is_spent_is_ended_and_what_was_delivered_is_billed(
    town: BudgetTown, router: Running, client: Client
) -> None:
    await put_prices(router, PRICE)
    # 5.00 are expected of a stream, and this one would cost 100
    await town.put("--amount", "6", "--window", "month")
    async with serve_provider(town.nc, Streaming(town.nc, 10_000)):
        chunks, failed = await read_until_failure(client.invoke_stream(**ASKED))
    assert (failed.code, failed.metadata["budget"]) == ("budget_exceeded", "month")
    event = await read_one(town.nc, router)
    assert (event["status"], event["estimated"]) == ("error", True)
    assert event["output_tokens"] >= len(chunks) / 2
    assert event["cost"] > 5
    assert float(failed.metadata["cost"]) == event["cost"]


async def test_what_reached_no_provider_gives_its_reservation_back(
    town: BudgetTown, router: Running, client: Client
) -> None:
    await put_prices(router, PRICE)
    await town.put("--amount", "6", "--window", "month")
    for _ in range(4):
        assert (await client.invoke(**ASKED)).error_code == "extension_unavailable"  # none listens
    assert await read_usage(town.nc, router.settings) == []
    async with serve_provider(town.nc, answers):
        assert (await client.invoke(**ASKED)).ok


async def test_a_budget_of_a_policy_counts_the_invocations_that_name_it(
    town: BudgetTown, router: Running, client: Client
) -> None:
    await put_prices(router, PRICE)
    await town.put("--amount", "100", "--window", "month", "--policy", "chat")
    async with serve_provider(town.nc, answers):
        assert (await client.invoke(**ASKED)).ok
        assert (await client.invoke(**ASKED, context={"policy_id": "chat"})).ok
    shown = await town.wait_until_settled("month/policy=chat", 1)
    assert Decimal(shown["settled"]) == Decimal("0.023")


async def test_an_invocation_for_an_assignment_uses_what_its_decision_reserved(
    town: BudgetTown, router: Running, client: Client
) -> None:
    """The budget has room for the decision alone."""
    await put_prices(router, {**PRICE, "provider": "a"})
    await register(router, an_entry("a"))
    await town.put("--amount", "5", "--window", "month")
    given = await town.nc.subscribe(router.settings.assignment.subjects[0])
    assert (await town.ask("one"))["ok"]
    assignment = json.loads((await given.next_msg(timeout=60)).data)
    asked = {
        "tenant_id": "acme",
        "provider_id": "a",
        "prompt": "hello",
        "request_id": assignment["assignment_id"],
    }
    async with serve_provider(town.nc, answers, "beamline.provider.a.v1"):
        assert (
            await client.invoke(**{**asked, "request_id": "r-1"})
        ).error_code == "budget_exceeded"
        assert (
            await client.invoke(**asked, context={"assignment_id": assignment["assignment_id"]})
        ).ok
    shown = await town.wait_until_settled("month", 1)
    assert Decimal(shown["settled"]) == Decimal("0.023")


async def _tells_where_it_is_asked_to(message: Msg) -> None:
    """Its answer has three times the tokens that its characters count."""
    asked = json.loads(message.data)
    usage = (
        {"usage": {"prompt_tokens": 9, "completion_tokens": 300}}
        if asked["prompt"] == "tell"
        else {}
    )
    await message.respond(
        json.dumps({"provider_id": "echo", "output": "river " * 66, **usage}).encode()
    )


async def test_a_router_that_has_just_begun_estimates_as_the_one_before(
    nc: Nats, nats_url: str, prefix: str, tmp_path: Path
) -> None:
    """A restart would otherwise change what an answer without told tokens costs."""
    settings, directory = settings_for(nats_url, prefix), write_policies(tmp_path)
    async with serve_provider(nc, _tells_where_it_is_asked_to), Client(nats_url) as client:

        async def estimate() -> float:
            return (await client.invoke(tenant_id="acme", provider_id="echo", prompt="hello")).cost

        async with a_router(settings, directory) as router:
            await register(router, an_entry())
            await put_prices(router, {"provider": "echo", "output": "10000"})
            documented = await estimate()
            for _ in range(20):
                assert (
                    await client.invoke(tenant_id="acme", provider_id="echo", prompt="tell")
                ).cost == 3.0
            learned = await estimate()
        assert learned > 2 * documented
        async with a_router(settings, directory):

            async def is_as_learned() -> bool:
                return await estimate() == learned

            await until(is_as_learned, what="an estimate by what was learned before")
