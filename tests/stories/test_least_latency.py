"""Four providers, each a process, under least_latency on two routers: one becomes slow, then fails
fast, then recovers.

Counted are choices. Providers report their latency, so nothing here depends on the speed of the
machine.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from nats.aio.client import Client

from router.contracts.decision import Decision
from router.policies.model import evaluate
from router.policies.model.measurements import LearnedFigures
from tests.support.cli import call_command
from tests.support.paced_provider import PacedProvider
from tests.support.policy import a_document, a_provider
from tests.support.policy import a_request as a_route_request
from tests.support.router_streams import results_are_settled
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import a_request, ask
from tests.support.waiting import until

NAMES = ("a", "b", "c", "d")
AT_ONCE = 40
STRATEGY = {"type": "least_latency", "explore": 0.2}


class Town:
    """Two routers that share a server, four providers, and what was chosen so far."""

    def __init__(
        self, nc: Client, routers: list[Running], providers: Mapping[str, PacedProvider]
    ) -> None:
        self._nc = nc
        self.routers = routers
        self._providers = providers
        self._asked = 0

    async def pace(self, name: str, **told: object) -> None:
        await self._nc.request(
            self._providers[name].pace_subject, json.dumps(told).encode(), timeout=10
        )

    async def choose(self, count: int) -> Counter[str]:
        """The choices for so many requests; when it returns both routers know all their results."""
        chosen = Counter[str]()
        for _ in range(count // AT_ONCE):
            names = range(self._asked, self._asked + AT_ONCE)
            self._asked += AT_ONCE
            settings = self.routers[0].settings
            answers = await asyncio.gather(
                *(ask(self._nc, settings, a_request(name, push_assignment=True)) for name in names)
            )
            chosen.update(answer["decision"]["provider_id"] for answer in answers)
            await until(
                self._knows_all, within_s=20, what=f"both routers know {self._asked} results"
            )
        return chosen

    async def _knows_all(self) -> bool:
        return await results_are_settled(self._nc, self.routers[0].settings) and all(
            map(self._is_level, self.routers)
        )

    def _is_level(self, router: Running) -> bool:
        known = figures_of(router).values()
        return (sum(one.samples for one in known), sum(one.in_flight for one in known)) == (
            self._asked,
            0,
        )


def figures_of(router: Running) -> Mapping[str, LearnedFigures]:
    context = router.service._context
    assert context is not None
    return context.measurements.figures_of("acme")


def choices_by(router: Running) -> list[str]:
    """Whom this router would choose for a hundred requests, now."""
    policy = router.service.policy_table.find("acme", "default")
    assert policy is not None
    figures = figures_of(router)
    made = (
        evaluate(policy, a_route_request(f"other-{number}"), figures=figures, now=0.0)
        for number in range(100)
    )
    return [decision.provider_id for decision in made if isinstance(decision, Decision)]


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[Town]:
    (tmp_path / "acme").mkdir()
    document = a_document(*(a_provider(name, 25) for name in NAMES), strategy=STRATEGY)
    (tmp_path / "acme" / "default.json").write_text(json.dumps(document))
    every = [settings_for(nats_url, prefix, node_id=f"node-{number}") for number in (1, 2)]
    places = every[0].assignment.subjects[0], every[0].results.subject
    providers = {name: PacedProvider(nats_url, prefix, name, *places) for name in NAMES}
    async with AsyncExitStack() as stack:
        for provider in providers.values():
            stack.callback(provider.stop)
            await asyncio.to_thread(provider.wait_until_ready)
        routers = [
            await stack.enter_async_context(a_router(settings, tmp_path)) for settings in every
        ]
        yield Town(nc, routers, providers)


async def test_who_is_slow_or_fails_fast_is_left_out_and_comes_back(
    town: Town, nats_url: str
) -> None:
    usual = await town.choose(80)
    assert all(usual[name] > 5 for name in NAMES)

    await town.pace("a", latency_ms=500)
    await town.choose(40)  # until one of its results is slow
    slow = await town.choose(80)
    assert slow["a"] <= 8  # explored: every fifth request goes to any of four
    one, other = map(choices_by, town.routers)
    assert sum(mine != theirs for mine, theirs in zip(one, other, strict=True)) <= 2

    await town.pace("a", latency_ms=1, fails=True)
    await town.choose(40)
    failing = await town.choose(80)
    assert failing["a"] <= 8

    told = await asyncio.to_thread(
        call_command,
        "provider",
        "stats",
        "--tenant",
        "acme",
        "--json",
        "--timeout",
        "60",
        "--nats-url",
        nats_url,
    )
    assert told.status == 0
    by_name = {row["provider_id"]: row for row in map(json.loads, told.out.splitlines())}
    assert by_name["a"]["score"] > by_name["b"]["score"]
    assert sum(row["samples"] for row in by_name.values()) == 320
    assert {row["in_flight"] for row in by_name.values()} == {0}

    await town.pace("a", latency_ms=20, fails=False)  # better than the others, and known as worse
    for _ in range(20):
        if (recovered := (await town.choose(40))["a"]) > 8:
            break
    assert recovered > 8
