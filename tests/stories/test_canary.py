"""Canaries on two routers and real providers: one is rolled back, one promoted, one aborted; a
router is restarted in between.

Providers report their latency and outcome, so nothing here depends on the speed of the machine.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.cli import CommandResult, call_command
from tests.support.paced_provider import PacedProvider
from tests.support.policy import a_document, a_provider
from tests.support.router_streams import results_are_settled
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import a_request, ask
from tests.support.waiting import until

NAMES = ("old", "new")
AT_ONCE = 20
WITHIN_S = 60


class Town:
    """Two routers that share a server, two providers, and the commands of an operator."""

    def __init__(
        self,
        nc: Client,
        settings: list[Settings],
        providers: Mapping[str, PacedProvider],
        directory: Path,
    ) -> None:
        self._nc = nc
        self._settings = settings
        self._providers = providers
        self._directory = directory
        self._stack = AsyncExitStack()
        self.routers: list[Running] = []
        self._asked = 0

    async def start(self) -> None:
        self.routers = [
            await self._stack.enter_async_context(a_router(one, self._directory))
            for one in self._settings
        ]

    async def restart(self, place: int) -> None:
        """Stop one router and begin another in its place, with nothing but what is stored."""
        await self.routers[place].stop()
        self.routers[place] = await self._stack.enter_async_context(
            a_router(self._settings[place], self._directory)
        )

    async def close(self) -> None:
        await self._stack.aclose()

    async def pace(self, name: str, **told: object) -> None:
        await self._nc.request(
            self._providers[name].pace_subject, json.dumps(told).encode(), timeout=10
        )

    async def choose(self, count: int = AT_ONCE, **fields: Any) -> Counter[str]:
        """The arms and providers of so many requests; when it returns their results are settled."""
        chosen = Counter[str]()
        names = range(self._asked, self._asked + count)
        self._asked += count
        body = {"push_assignment": True, **fields}
        for answer in await asyncio.gather(
            *(ask(self._nc, self._settings[0], a_request(name, **body)) for name in names)
        ):
            decision = answer["decision"]
            chosen[f"{decision['metadata'].get('canary')}:{decision['provider_id']}"] += 1
        await until(self._is_booked, within_s=WITHIN_S, what="the results are settled")
        return chosen

    async def _is_booked(self) -> bool:
        return await results_are_settled(self._nc, self._settings[0])

    async def call(self, *arguments: str) -> CommandResult:
        names = self._settings[0].buckets
        environ = {
            "ROUTER_BUCKETS__POLICIES__NAME": names.policies.name,
            "ROUTER_BUCKETS__CANARIES__NAME": names.canaries.name,
            "ROUTER_NATS__URL": self._settings[0].nats.url[0],
        }
        return await asyncio.to_thread(call_command, *arguments, environ=environ)

    async def begin(self, *options: str, provider: str = "new") -> CommandResult:
        file = self._directory / "candidate.json"
        file.write_text(json.dumps(a_document(a_provider(provider))))
        began = await self.call(
            "policy", "canary", "start", "acme", "default", str(file), *options, "--json"
        )
        assert began.status == 0, began.err
        version = began.json["version"]
        # a short one may be over
        await until(
            lambda: all(self._find_version(one) >= version for one in self.routers),
            within_s=WITHIN_S,
        )
        return began

    def _find_version(self, router: Running) -> int:
        policy = router.service.policy_table.find("acme", "default")
        assert policy is not None
        return policy.version

    async def has_counted(self, outcomes: int) -> bool:
        told = (await self.call("policy", "canary", "status", "acme", "default", "--json")).json
        return bool(told["candidate"]["outcomes"] + told["control"]["outcomes"] == outcomes)

    async def wait_for_version(self, version: int, *, asks: bool = True) -> str:
        """Ask until both routers have it; the note of its history."""
        for _ in range(40):
            if not asks or all(self._find_version(one) >= version for one in self.routers):
                break
            await self.choose()
        await until(
            lambda: all(self._find_version(one) == version for one in self.routers),
            within_s=WITHIN_S,
        )
        written = (await self.call("policy", "history", "acme", "default", "--json")).lines
        assert [one["version"] for one in written] == list(range(1, version + 1))
        note: str = written[-1]["note"]
        return note


@pytest.fixture
async def town(nc: Client, nats_url: str, prefix: str, tmp_path: Path) -> AsyncIterator[Town]:
    (tmp_path / "acme").mkdir()
    (tmp_path / "acme" / "default.json").write_text(json.dumps(a_document(a_provider("old"))))
    every = [
        settings_for(nats_url, prefix, node_id=f"node-{number}", recorder__tenants="acme")
        for number in (1, 2)
    ]
    places = every[0].assignment.subjects[0], every[0].results.subject
    providers = {name: PacedProvider(nats_url, prefix, name, *places) for name in NAMES}
    async with AsyncExitStack() as stack:
        for provider in providers.values():
            stack.callback(provider.stop)
            await asyncio.to_thread(provider.wait_until_ready)
        town = Town(nc, every, providers, tmp_path)
        stack.push_async_callback(town.close)
        await town.start()
        yield town


async def test_one_that_fails_is_rolled_back_and_one_that_mends_is_promoted_across_a_restart(
    town: Town,
) -> None:
    await town.begin("--share", "50", "--for", "1h")
    chosen = await town.choose()
    assert set(chosen) == {"control:old", "candidate:new"}
    refused = await town.call(
        "policy", "canary", "start", "acme", "default", str(town._directory / "candidate.json")
    )
    assert (refused.status, "has one already" in refused.err) == (1, True)

    await town.restart(0)
    await until(
        lambda: town.has_counted(AT_ONCE),
        within_s=WITHIN_S,
        what="all outcomes, also of the router that is gone",
    )

    await town.pace("new", latency_ms=100, fails=True)
    note = await town.wait_for_version(3)
    assert note.startswith("canary rolled back: error_rate<=1.2x broken (candidate ")
    assert set(await town.choose()) == {"None:old"}

    await town.pace("new", latency_ms=100, fails=False)
    await town.pace("old", latency_ms=100, fails=True)
    await town.begin(
        "--share", "50", "--for", "1h", "--guard", "error_rate<=1.2x", "--min-results", "20"
    )
    await town.choose(10)
    await town.restart(1)
    note = await town.wait_for_version(5)
    assert note.startswith("canary promoted: error_rate<=1.2x holds (candidate 0.00% of ")
    assert set(await town.choose()) == {"None:new"}
    assert (await town.call("policy", "canary", "status", "acme", "default")).status == 1


async def test_one_whose_time_is_over_with_too_few_outcomes_is_rolled_back_and_one_is_aborted(
    town: Town,
) -> None:
    await town.begin("--share", "50", "--for", "1s")
    note = await town.wait_for_version(3, asks=False)
    assert "too few outcomes of the candidate to say" in note
    await town.begin("--share", "50", "--for", "1h")
    listed = (await town.call("policy", "canary", "list", "--json")).lines
    assert [(one["policy"], one["version"], one["state"]) for one in listed] == [
        ("default", 4, "running")
    ]
    assert (
        await town.call("policy", "canary", "abort", "acme", "default", "--author", "me")
    ).status == 0
    assert await town.wait_for_version(5) == "canary rolled back: aborted by me"
    assert (await town.call("policy", "canary", "abort", "acme", "default")).status == 1


async def test_requests_that_are_answered_only_are_outcomes_too(town: Town) -> None:
    await town.begin("--share", "50", "--for", "1h")
    assert set(await town.choose(push_assignment=False)) == {"control:old", "candidate:new"}
    await until(
        lambda: town.has_counted(AT_ONCE), within_s=WITHIN_S, what="each answer is an outcome"
    )


async def test_a_session_stays_in_its_arm_on_both_routers(town: Town) -> None:
    await town.begin("--share", "50", "--for", "1h")
    for number in range(5):
        assert len(await town.choose(6, context={"session_id": f"s-{number}"})) == 1


async def test_a_shadow_is_counted_and_used_for_nothing(town: Town) -> None:
    await town.begin("--shadow", "--for", "1h")
    assert set(await town.choose()) == {"None:old"}

    async def is_counted() -> bool:
        told = (await town.call("policy", "canary", "status", "acme", "default", "--json")).json
        return bool(
            told["shadow"].get("decisions", 0) == AT_ONCE
            and told["shadow"]["differences"] == AT_ONCE
        )

    await until(is_counted, within_s=WITHIN_S, what="every decision had a shadow")
    told = await town.call("policy", "canary", "status", "acme", "default")
    assert "100.00% of 20 decisions differ" in told.out
