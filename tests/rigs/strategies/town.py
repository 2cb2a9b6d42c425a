"""Two routers on one server, four providers that work, and requests at a steady rate."""

import asyncio
import itertools
import json
import time
import uuid
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nats.aio.client import Client
from nats.aio.msg import Msg

from router.policies.model import PolicyFinder, RecordedDecision, reevaluate
from tests.support.paced_provider import PacedProvider
from tests.support.patient_client import connect_patiently
from tests.support.policy import a_document, a_provider
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import a_request, ask

NAMES = ("a", "b", "c", "d")
TENANT, POLICY = "acme", "default"
WORKS = {"latency_ms": 100, "fails": False, "works": True}
RECORDED = 100_000  # decisions of each instance, at most


class Choice:
    """One decision: when it was made, and for whom."""

    __slots__ = ("at", "provider")

    def __init__(self, at: float, provider: str) -> None:
        self.at = at
        self.provider = provider


class Result:
    """One result as it came."""

    __slots__ = ("at", "cost", "is_success", "latency_ms", "provider")

    def __init__(self, at: float, body: Mapping[str, Any], provider: str) -> None:
        self.at = at
        self.provider = provider
        self.latency_ms = float(body["latency_ms"])
        self.cost = float(body["cost"])
        self.is_success = body["status"] == "success"


class Town:
    def __init__(
        self, nc: Client, routers: list[Running], providers: Mapping[str, PacedProvider]
    ) -> None:
        self._nc = nc
        self.routers = routers
        self._providers = providers
        self.choices: list[Choice] = []
        self.results: list[Result] = []
        self._chosen: dict[str, str] = {}  # request -> provider
        self._numbers = itertools.count()
        self._asking: set[asyncio.Task[None]] = set()

    async def pace(self, name: str, **told: object) -> None:
        await self._nc.request(
            self._providers[name].pace_subject, json.dumps({**WORKS, **told}).encode(), timeout=30
        )

    async def listen(self) -> None:
        async def on_result(message: Msg) -> None:
            body = json.loads(message.data)
            provider = self._chosen.get(body["request_id"])
            if provider is not None:
                self.results.append(Result(time.monotonic(), body, provider))

        await self._nc.subscribe(self.routers[0].settings.results.subject, cb=on_result)

    async def load(self, seconds: float, rate: float) -> None:
        """Ask at this rate, whether or not answers come, for so long."""
        begun, asked = time.monotonic(), 0
        while (passed := time.monotonic() - begun) < seconds:
            while asked < passed * rate:
                task = asyncio.create_task(self._ask(next(self._numbers)))
                self._asking.add(task)
                task.add_done_callback(self._asking.discard)
                asked += 1
            await asyncio.sleep(0.01)

    async def finish(self) -> None:
        await asyncio.gather(*self._asking)

    async def _ask(self, number: int) -> None:
        answer = await ask(
            self._nc, self.routers[0].settings, a_request(number, push_assignment=True)
        )
        if answer["ok"]:
            provider = answer["decision"]["provider_id"]
            self._chosen[f"r-{number}"] = provider
            self.choices.append(Choice(time.monotonic(), provider))

    async def decide(self, count: int) -> None:
        """Decisions without assignments, as fast as they come."""
        for _ in range(0, count, 200):
            bodies = [a_request(f"plain-{next(self._numbers)}") for _ in range(200)]
            await asyncio.gather(
                *(ask(self._nc, self.routers[0].settings, body) for body in bodies)
            )

    def list_instances(self, since_ms: float) -> list[list[str]]:
        """The providers that each instance has chosen since then, as it has recorded them."""
        return [
            [
                one.decision.provider_id
                for one in list_cases(router)
                if one.at_ms >= since_ms and one.decision
            ]
            for router in self.routers
        ]

    def compute_again(self) -> tuple[int, int]:
        """Recorded decisions, and how many are other ones when they are computed again."""
        total = differences = 0
        for router in self.routers:
            policy = find_policy(router)
            for case in list_cases(router):
                total += 1
                differences += reevaluate(policy, case).answer != case.answer
        return total, differences


def list_cases(router: Running) -> Iterator[RecordedDecision]:
    context = router.service._context
    assert context is not None
    return context.recorder.list_latest(TENANT, POLICY, RECORDED)


def find_policy(router: Running) -> Any:
    finder: PolicyFinder = router.service.policy_table
    policy = finder.find(TENANT, POLICY)
    assert policy is not None
    return policy


@asynccontextmanager
async def a_town(url: str, strategy: Mapping[str, object]) -> AsyncIterator[Town]:
    prefix = f"s{uuid.uuid4().hex[:8]}"
    every = [
        settings_for(
            url,
            prefix,
            node_id=f"node-{number}",
            recorder__tenants=TENANT,
            recorder__entries=RECORDED,
        )
        for number in (1, 2)
    ]
    places = every[0].assignment.subjects[0], every[0].results.subject
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        (directory / TENANT).mkdir()
        document = a_document(*(a_provider(name, 25) for name in NAMES), strategy=strategy)
        (directory / TENANT / f"{POLICY}.json").write_text(json.dumps(document))
        providers = {name: PacedProvider(url, prefix, name, *places) for name in NAMES}
        for provider in providers.values():
            stack.callback(provider.stop)
            await asyncio.to_thread(provider.wait_until_ready)
        nc = await connect_patiently(url)
        stack.push_async_callback(nc.close)
        routers = [
            await stack.enter_async_context(a_router(settings, directory)) for settings in every
        ]
        town = Town(nc, routers, providers)
        await town.listen()
        yield town
        await town.finish()
