"""What answers HTTP clients, before one stand-in provider: our gateway with all that it needs, a
bare pass-through, and LiteLLM's proxy.

    asker ── HTTP ──> gateway ── NATS ──> router, provider service ── HTTP ──> stand-in
    asker ── HTTP ──> pass-through, or LiteLLM ──────────────────────  HTTP ──> stand-in

Our side has a key in its bucket, a budget of the tenant and a price of the provider, so each
request is admitted, decided, reserved and metered. A place of this module is open as long as its
block lasts, and tells the ids of its processes: their processor time is read from outside.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager

import httpx2
from msgspec import Struct

from bench.broker import Counts, a_broker, check_counts, jetstream_on, settings
from bench.family import member, used
from bench.litellm import open_litellm
from bench.process import a_child, figures_of
from bench.question import Broken
from bench.sides.gateways import PROVIDER
from bench.sides.stand_in import MODEL
from router.budgets.model.budget import Budget
from router.budgets.model.prices import parse_price
from router.budgets.prices.store import PriceStore
from router.budgets.store import BudgetStore
from router.config import Settings
from router.contracts.money import NANOS
from router.core.clock import now_ms
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.gateway.keys.model.api_key import make_key
from router.gateway.keys.store import open_keys

TENANT = "acme"
POLICY = "gateway"
WAIT_S = 60.0

Pids = Mapping[str, int]  # by what the process is


class Place(Struct, frozen=True):
    """Where requests are sent. `broker`: of our gateway."""

    url: str
    model: str
    pids: Pids
    key: str = "none"
    broker: str = ""

    def read_cpu_s(self) -> dict[str, float]:
        """Processor time so far, seconds, by process."""
        return {name: used(pid).cpu_s for name, pid in self.pids.items()}


class Asking(Struct, frozen=True):
    """`in_flight` 0: an open loop at `rate`."""

    count: int
    is_stream: bool = False
    in_flight: int = 0
    rate: float = 0.0


async def ask(place: Place, asking: Asking) -> dict[str, float]:
    """What the asker measured, and the CPU µs of each process a request. Broken: a wrong answer."""
    before = place.read_cpu_s()
    figures = await figures_of(
        "bench.sides.http_asker",
        "ask",
        url=place.url,
        key=place.key,
        model=place.model,
        is_stream=asking.is_stream,
        count=asking.count,
        in_flight=asking.in_flight,
        rate=asking.rate,
    )
    after = place.read_cpu_s()
    if figures["wrong"]:
        raise Broken(f"{figures['wrong']:.0f} of {asking.count} answers of {place.url} were wrong")
    return {
        **figures,
        "asker_us": figures["cpu_s"] / asking.count * 1e6,
        **{f"{name}_us": (after[name] - before[name]) / asking.count * 1e6 for name in after},
        "cpu_us": (sum(after.values()) - sum(before.values())) / asking.count * 1e6,
    }


async def check_usage(place: Place, count: int) -> None:
    """Broken unless each request of our gateway is one usage event."""
    config = settings(place.broker)

    async def find(jetstream: JetStream) -> Counts:
        found = await jetstream.stream(config.streams.usage.name) or {}
        return {"usage events": found["state"]["last_seq"]}

    await check_counts(place.broker, find, {"usage events": count})


# -- The places.


@asynccontextmanager
async def open_stand_in() -> AsyncIterator[Place]:
    async with a_child("bench.sides.stand_in", "serve") as child:
        url = (await child.ready())["url"]
        yield Place(url, MODEL, {"stand_in": child.pid})


@asynccontextmanager
async def open_pass_through(stand_in: Place) -> AsyncIterator[Place]:
    async with a_child("bench.sides.stand_in", "pass_through", upstream=stand_in.url) as child:
        url = (await child.ready())["url"]
        yield Place(url, MODEL, {"pass_through": child.pid})


@asynccontextmanager
async def open_peer(stand_in: Place) -> AsyncIterator[Place]:
    """LiteLLM's proxy. Absent: it cannot be had."""
    async with open_litellm(stand_in.url, MODEL) as proxy:
        yield Place(proxy.url, MODEL, {"litellm": proxy.pid}, proxy.key)


@asynccontextmanager
async def open_gateway(stand_in: Place) -> AsyncIterator[Place]:
    """Ours, with a key, a budget and a price."""
    async with a_broker() as url, AsyncExitStack() as stack:
        key = await _prepare(settings(url), url)

        async def start(function: str, **arguments: object) -> tuple[int, Mapping[str, str]]:
            child = await stack.enter_async_context(
                a_child("bench.sides.gateways", function, url=url, **arguments)
            )
            facts = await child.ready()
            stack.push_async_callback(child.stop)
            return child.pid, facts

        router, _ = await start("route")
        provider, _ = await start("provide", upstream=stand_in.url)
        gateway, facts = await start("open_gateway")
        pids = {
            "gateway": gateway,
            "router": router,
            "provider": provider,
            "server": member(os.getpid(), "nats-server"),
        }
        place = Place(facts["url"], f"router/{POLICY}", pids, key, url)
        await _wait_for_provider(place)
        yield place


async def _wait_for_provider(place: Place) -> None:
    """Until the gateway has the provider's entry."""
    headers = {"authorization": f"Bearer {place.key}"}
    async with httpx2.AsyncClient(headers=headers) as client, asyncio.timeout(WAIT_S):
        # the gateway is another process: there is no event to wait for
        while not (await client.get(f"{place.url}/models/{MODEL}")).is_success:  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def _prepare(config: Settings, url: str) -> str:
    """The tenant's key, as text; a budget that is never spent, and a price."""
    buckets = config.buckets
    made = make_key(TENANT, now_ms(), policies=(POLICY,))
    async with jetstream_on(url) as jetstream:
        await open_keys(jetstream, buckets.keys.name).put(made.key, author="bench", replaces=0)
        budget = Budget(tenant_id=TENANT, amount=1_000_000 * NANOS, window="month")
        await BudgetStore(_open(jetstream, buckets.budgets.name)).put(budget, author="bench")
        price = {"provider": PROVIDER, "input": "1", "output": "3"}
        currency = config.usage.currency
        await PriceStore(_open(jetstream, buckets.prices.name)).put(
            parse_price({**price, "currency": currency}), author="bench"
        )
    return made.text


def _open(jetstream: JetStream, bucket: str) -> DocumentBucket:
    return DocumentBucket(jetstream, bucket)
