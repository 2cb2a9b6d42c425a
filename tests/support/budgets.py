"""Routers with budgets on one server, a provider in this process that does every assignment at
once, and `router budget`.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path

from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from router.config import Settings
from router.delivery.wire.api import JetStream
from tests.support.cli import call_command
from tests.support.delivery import connected
from tests.support.paced_provider import make_headers
from tests.support.patient_client import PATIENCE_S, connect_patiently
from tests.support.policy import a_document, a_provider
from tests.support.router_streams import read_usage
from tests.support.service import Running
from tests.support.stories import Json, a_request, ask
from tests.support.waiting import until


def write_policies(directory: Path, *, cost: float = 0.01) -> Path:
    """The policies `default`, by provider a, and `cheap`, by provider b."""
    (directory / "acme").mkdir()
    for name, provider in (("default", "a"), ("cheap", "b")):
        document = a_document({**a_provider(provider, 100), "expected_cost": cost})
        (directory / "acme" / f"{name}.json").write_text(json.dumps(document))
    return directory


async def serve_assignments(
    nc: Client, settings: Settings, cost_of: Callable[[Json], float] = lambda _: 0.01
) -> Subscription:
    """Report success for each assignment, and what it cost, as long as the subscription lasts."""

    async def on_assignment(message: Msg) -> None:
        assignment = json.loads(message.data)
        names = {key: assignment[key] for key in ("assignment_id", "request_id", "tenant_id")}
        result = {
            **names,
            "status": "success",
            "latency_ms": 5,
            "cost": cost_of(assignment),
            "job": {"type": "chat"},
        }
        await nc.publish(
            settings.results.subject, json.dumps(result).encode(), headers=make_headers(assignment)
        )

    subscription = await nc.subscribe(settings.assignment.subjects[0], cb=on_assignment)
    await nc.flush()
    return subscription


@asynccontextmanager
async def a_worker(settings: Settings) -> AsyncIterator[None]:
    """Every assignment is done at once as long as the block lasts, by a connection of its own."""
    client = await connect_patiently(settings.nats.url[0])
    await serve_assignments(client, settings)
    try:
        yield
    finally:
        await client.close()


class BudgetTown:
    """Routers that share a server and its budgets."""

    def __init__(self, nc: Client, routers: list[Running], url: str) -> None:
        self.nc = nc
        self.routers = routers
        self._url = url

    async def command(self, *words: str, what: str = "budget") -> Json:
        """What `router budget …` prints, or that of another group."""
        buckets = self.routers[0].settings.buckets
        names = {
            "ROUTER_BUCKETS_BUDGETS_NAME": buckets.budgets.name,
            "ROUTER_BUCKETS_BUDGETS_SPENT_NAME": buckets.budgets_spent.name,
        }
        names["ROUTER_STREAMS_USAGE_NAME"] = self.usage
        arguments = (what, *words, "--json", "--nats-url", self._url)
        ended = await asyncio.to_thread(call_command, *arguments, environ=names)
        assert ended.status == 0, ended.err
        document: Json = json.loads(ended.out)
        return document

    async def put(self, *words: str) -> None:
        """Put a budget of acme; every router follows it when this returns."""
        await self.command("put", "acme", *words)
        await until(
            lambda: all(map(_has_budgets, self.routers)),
            within_s=20,
            what="every router follows the budget",
        )

    async def ask(self, name: object, **fields: object) -> Json:
        """The answer to a request whose assignment is pushed."""
        return await ask(
            self.nc,
            self.routers[0].settings,
            a_request(name, **{"push_assignment": True, **fields}),
        )

    async def spend(self, names: Iterable[int]) -> None:
        """Requests that are decided, and metered."""
        for name in names:
            assert (await self.ask(name))["ok"]

    @property
    def usage(self) -> str:
        return self.routers[0].settings.streams.usage.name

    @asynccontextmanager
    async def open_jetstream(self) -> AsyncIterator[JetStream]:
        async with connected(self._url) as connection:
            yield JetStream(connection, timeout_s=PATIENCE_S)

    @asynccontextmanager
    async def lose_usage(self) -> AsyncIterator[tuple[JetStream, Json]]:
        """The usage stream is deleted; the block makes another one, by this configuration."""
        async with self.open_jetstream() as jetstream:
            info = await jetstream.stream(self.usage)
            assert info is not None
            await jetstream.ask(f"STREAM.DELETE.{self.usage}")
            yield jetstream, info["config"]

    async def wait_until_settled(self, budget: str, events: int) -> Json:
        """The budget as `show` prints it, once so many events are settled."""
        shown: Json = {}

        async def is_settled() -> bool:
            nonlocal shown
            shown = await self.command("show", "acme", budget)
            return bool(shown["events"] == events)

        await until(is_settled, within_s=20, what=f"{events} events are settled")
        return shown

    async def wait_until_metered(self, events: int) -> None:
        async def is_metered() -> bool:
            return len(await read_usage(self.nc, self.routers[0].settings)) == events

        await until(is_metered, within_s=20, what=f"{events} usage events")


def _has_budgets(router: Running) -> bool:
    context = router.service._context
    return context is not None and "acme" in context.budgets.table.tenants
