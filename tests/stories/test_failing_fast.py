"""What fails at once is never preferred, however it says that it failed, and comes back soon after
it has recovered.

The test is the worker: it answers each assignment at once, so nothing here depends on the speed of
the machine.
"""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from tests.support.policy import a_document, a_provider
from tests.support.router_streams import results_are_settled
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, a_request, ask
from tests.support.waiting import until

NAMES = ("a", "b", "c", "d")
AT_ONCE = 20
PROBED = 100  # of so many requests one is a probe, on average
BREAKER = {"enabled": True, "timeout_ms": 1000}
STRATEGIES: Mapping[str, Json] = {
    "least_latency": {"type": "least_latency"},
    "cheapest": {"type": "cheapest"},
    "cheapest within": {"type": "cheapest", "within": {"success_rate": 0.9}},
}
WORKS = {"status": "success", "latency_ms": 100, "cost": 0.02}


class Work:
    """A router, its four providers, and what each of them says of an assignment."""

    def __init__(self, nc: Client, router: Running) -> None:
        self._nc = nc
        self._router = router
        self._asked = 0
        self.says: dict[str, Json] = {name: dict(WORKS) for name in NAMES}

    async def listen(self) -> None:
        await self._nc.subscribe(self._router.settings.assignment.subjects[0], cb=self._work)
        await self._nc.flush()

    async def _work(self, message: Msg) -> None:
        assignment = json.loads(message.data)
        said = self.says[assignment["executor"]["provider_id"]]
        ids = {key: assignment[key] for key in ("assignment_id", "request_id", "tenant_id")}
        headers = {"Nats-Msg-Id": f"result-{ids['assignment_id']}"}
        body = json.dumps({**ids, "job": {"type": "chat"}, "cost": 0, **said}).encode()
        await self._nc.jetstream().publish(
            self._router.settings.results.subject, body, headers=headers
        )

    async def choose(self, count: int) -> Counter[str]:
        """The choices for so many requests; when it returns the router knows all their results."""
        chosen = Counter[str]()
        for _ in range(count // AT_ONCE):
            names = range(self._asked, self._asked + AT_ONCE)
            self._asked += AT_ONCE
            bodies = [a_request(name, push_assignment=True) for name in names]
            answers = await asyncio.gather(
                *(ask(self._nc, self._router.settings, body) for body in bodies)
            )
            chosen.update(answer["decision"]["provider_id"] for answer in answers)
            await until(
                self._knows_all, within_s=20, what=f"the router knows {self._asked} results"
            )
        return chosen

    async def _knows_all(self) -> bool:
        stream = await self._nc.jetstream().stream_info(self._router.settings.streams.results.name)
        return stream.state.messages == self._asked and await results_are_settled(
            self._nc, self._router.settings
        )


def write_policy(directory: Path, **sections: object) -> None:
    """Four providers; `a` is the fastest and the cheapest that the policy tells of."""
    providers = (
        a_provider(name, 25, expected_latency_ms=100, expected_cost=0.02) for name in NAMES
    )
    (directory / "acme").mkdir(exist_ok=True)
    (directory / "acme" / "default.json").write_text(json.dumps(a_document(*providers, **sections)))


@pytest.fixture
async def work(
    request: pytest.FixtureRequest, nc: Client, nats_url: str, prefix: str, tmp_path: Path
) -> AsyncIterator[Work]:
    write_policy(tmp_path, **request.param)
    async with a_router(settings_for(nats_url, prefix), tmp_path) as router:
        one = Work(nc, router)
        one.says["a"] |= {"latency_ms": 10, "cost": 0.01}
        await one.listen()
        yield one


def policies(*names: str) -> list[Json]:
    sections = [{"strategy": STRATEGIES[name]} for name in names]
    return [*sections, *({**one, "circuit_breaker": BREAKER} for one in sections)]


FAILS = [{}, {"error_code": "2001"}, {"error_code": "503"}, {"error_code": "PROVIDER_ERROR"}]


@pytest.mark.parametrize("error", FAILS, ids=["no code", "2001", "503", "PROVIDER_ERROR"])
@pytest.mark.parametrize(
    "work",
    policies(*STRATEGIES),
    indirect=True,
    ids=[*STRATEGIES, *(f"{name}, breaker" for name in STRATEGIES)],
)
async def test_who_fails_at_once_is_left_out_and_comes_back(work: Work, error: Json) -> None:
    usual = await work.choose(60)
    assert usual["a"] == max(usual.values())  # it is the best, but for what it has in hand

    work.says["a"] = {"status": "error", "latency_ms": 1, **error}
    await work.choose(60)
    failing = await work.choose(PROBED)
    assert failing["a"] <= 5  # probes, and those are few

    work.says["a"] = {**WORKS, "latency_ms": 10, "cost": 0.01}

    async def is_back() -> bool:
        return (await work.choose(2 * AT_ONCE))["a"] >= AT_ONCE // 2

    await until(is_back, within_s=60, what="it has its share of the requests again")
