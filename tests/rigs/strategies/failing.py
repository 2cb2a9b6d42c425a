"""Each way to fail under each strategy, with and without a breaker: how many requests it has, and
how soon it is back.

Two routers, one worker of the SDK, and tenants side by side: one with a breaker, one without.
Provider `a` is the fastest and the cheapest; for a while its work ends at once, in one of the ways
of KINDS.
"""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from nats.aio.client import Client as Nats

from router import Client, ExecAssignment, RateLimited, StepResult, Worker
from router.core.errors import Transient
from router.sdk.provider_handler import ProviderHandler
from router.work.commands.workers import make_places
from tests.rigs.strategies.course import FAILING_SHARE, SETTLED_S, Course, Measure, Part, tell
from tests.support.patient_client import connect_patiently
from tests.support.policy import a_document, a_provider
from tests.support.providers import an_entry, register
from tests.support.sdk import run_workers
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import a_request, ask

NAMES = ("a", "b", "c", "d")
COSTS = {"a": 0.01, "b": 0.02, "c": 0.03, "d": 0.04}
SECONDS = {"a": 0.03, "b": 0.05, "c": 0.05, "d": 0.05}
STRATEGIES: Mapping[str, Mapping[str, Any]] = {
    "least_latency": {"type": "least_latency"},
    "cheapest": {"type": "cheapest"},
    "cheapest within success_rate": {"type": "cheapest", "within": {"success_rate": 0.9}},
}
TENANTS: Mapping[str, Mapping[str, Any]] = {
    "alone": {},
    "guarded": {"circuit_breaker": {"enabled": True, "timeout_ms": 3000}},
}
CODES: Mapping[str, str | None] = {
    "no code": None,
    "2001": "2001",
    "503": "503",
    "PROVIDER_ERROR": "PROVIDER_ERROR",
}
KINDS = (*CODES, "429", "connection refused", "raise Transient")
FAILING_S, BACK_WITHIN_S, STEP_S = 15.0, 10.0, 1.0
IS_FAILING, WELL = "fails", "well"


class World:
    """Where requests of each tenant go, and how `a` does."""

    def __init__(self, nc: Nats, router: Running) -> None:
        self._nc = nc
        self._settings = router.settings
        self.kind: str | None = None
        self.asks: ProviderHandler | None = None
        self.choices: list[tuple[float, str, str]] = []  # when, tenant, provider
        self._asked = 0
        self._asking: set[asyncio.Task[None]] = set()

    async def work(self, assignment: ExecAssignment) -> StepResult:
        name, kind = assignment.provider_id, self.kind
        if name != "a" or kind is None:
            await asyncio.sleep(SECONDS[name])
            return StepResult(output="done", cost=COSTS[name])
        if kind == "raise Transient":
            raise Transient("busy")
        if kind == "429":
            raise RateLimited
        if kind == "connection refused":
            assert self.asks is not None
            return await self.asks(assignment)
        return StepResult(status="error", error_code=CODES[kind])

    async def load(self, seconds: float, rate: float) -> None:
        """So many requests a second for each tenant."""
        begun, asked = time.monotonic(), 0
        while (passed := time.monotonic() - begun) < seconds:
            while asked < passed * rate:
                asked += 1
                for tenant in TENANTS:
                    task = asyncio.create_task(self._ask(tenant))
                    self._asking.add(task)
                    task.add_done_callback(self._asking.discard)
            await asyncio.sleep(0.01)

    async def _ask(self, tenant: str) -> None:
        self._asked += 1
        body = a_request(f"{tenant}-{self._asked}", tenant_id=tenant, push_assignment=True)
        answer = await ask(self._nc, self._settings, body)
        if answer["ok"]:
            self.choices.append((time.monotonic(), tenant, answer["decision"]["provider_id"]))

    def share(self, tenant: str, since: float) -> float:
        chosen = [
            provider for at, whose, provider in self.choices if whose == tenant and at >= since
        ]
        return chosen.count("a") / max(1, len(chosen))


@asynccontextmanager
async def a_world(url: str, strategy: Mapping[str, Any]) -> AsyncIterator[World]:
    every = [settings_for(url, "failing", node_id=f"node-{number}") for number in (1, 2)]
    async with AsyncExitStack() as stack:
        directory = Path(stack.enter_context(TemporaryDirectory()))
        for tenant, sections in TENANTS.items():
            (directory / tenant).mkdir()
            providers = (a_provider(one, 25, expected_cost=COSTS[one]) for one in NAMES)
            document = a_document(*providers, strategy=strategy, **sections)
            (directory / tenant / "default.json").write_text(json.dumps(document))
        routers = [
            await stack.enter_async_context(a_router(settings, directory)) for settings in every
        ]
        await register(routers[0], an_entry("a"))
        nc = await connect_patiently(url)
        stack.push_async_callback(nc.close)
        world = World(nc, routers[0])
        world.asks = ProviderHandler(
            await stack.enter_async_context(Client(url, subject=every[0].decide.subject))
        )
        subject, places = every[0].assignment.subjects[0], make_places(every[0])
        worker = Worker(url, world.work, worker_id="w", slots=64, subject=subject, topology=places)
        await stack.enter_async_context(run_workers(worker))
        yield world


async def run_failing(title: str, url: str, rate: float) -> Course:
    """`rate`: of both tenants together."""
    course = Course(f"Failing in each way: {title}", [])
    async with a_world(url, STRATEGIES[title]) as world:
        await world.load(8, rate / len(TENANTS))
        for kind in KINDS:
            course.parts.append(await fail_and_recover(world, kind, rate / len(TENANTS)))
    return course


async def fail_and_recover(world: World, kind: str, rate: float) -> Part:
    begun = time.monotonic()
    usual = {tenant: world.share(tenant, begun - 3) for tenant in TENANTS}
    world.kind = kind
    await world.load(FAILING_S, rate)
    shares = {tenant: world.share(tenant, begun + SETTLED_S) for tenant in TENANTS}
    world.kind, well_at = None, time.monotonic()
    back: dict[str, float] = {}
    while len(back) < len(TENANTS) and time.monotonic() - well_at < 3 * BACK_WITHIN_S:
        step_at = time.monotonic()
        await world.load(STEP_S, rate)
        for tenant in TENANTS:
            if tenant not in back and world.share(tenant, step_at) >= usual[tenant] / 2:
                back[tenant] = time.monotonic() - well_at
    await world.load(3, rate)
    seconds, requests = time.monotonic() - begun, sum(at >= begun for at, _, _ in world.choices)
    measures = [
        one for tenant in TENANTS for one in measure(tenant, shares[tenant], back.get(tenant))
    ]
    part = Part(f"a fails: {kind}", seconds, requests, measures)
    tell(f"  {part}")
    return part


def measure(tenant: str, share: float, back_s: float | None) -> list[Measure]:
    where = "with a breaker" if tenant == "guarded" else "without"
    is_back = back_s is not None and back_s <= BACK_WITHIN_S
    told = (
        f"after {back_s:.0f} s" if back_s is not None else f"not within {3 * BACK_WITHIN_S:.0f} s"
    )
    return [
        Measure(f"{where}: share after {SETTLED_S:g} s", f"{share:.1%}", share <= FAILING_SHARE),
        Measure("back", told, is_back),
    ]
