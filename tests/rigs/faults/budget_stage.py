"""Routers with budgets and wrong clocks that are killed, requests, and a provider in this process
with costs by request id.
"""

import asyncio
import json
from collections import Counter
from random import Random
from zlib import crc32

from nats.aio.client import Client
from nats.errors import TimeoutError as NoAnswer

from tests.rigs.faults.child import STEP, Child
from tests.rigs.faults.stage import Stage
from tests.support.budgets import serve_assignments, write_policies
from tests.support.cli import call_command
from tests.support.stories import Json, a_request, ask

# longer than results take on a busy machine: what comes later may be overspent
RESERVATION_MS = 20_000
IN_FLIGHT = 48
PATIENCE_S = 8.0  # then it is asked again, as a client does: an answer may die with its router
TRIES = 20


class BudgetStage(Stage):
    """Policies by two providers, short reservations."""

    async def _child(
        self, name: str, command: tuple[str, ...], announces: str, **more: object
    ) -> Child:
        policies = self.home / "policies"
        if not policies.exists():
            policies.mkdir()
            write_policies(policies)
        own = {
            "policies.dir": policies,
            "budgets.reservation_ms": RESERVATION_MS,
            "decide.max_attempts": 20,
            "results.max_attempts": 20,
        }
        return await super()._child(name, command, announces, **own, **more)

    async def command(self, *words: str) -> list[Json]:
        """What `router budget …` prints."""
        ended = await asyncio.to_thread(
            call_command, "budget", *words, "--json", "--nats-url", self.url
        )
        assert ended.status == 0, ended.err
        return [json.loads(line) for line in ended.out.splitlines()]


def cost_of(assignment: Json) -> float:
    """0.005 to 0.015 by the request's id; a repeated assignment costs the same."""
    return (5 + crc32(assignment["request_id"].encode()) % 11) / 1000


async def ask_all(
    stage: Stage, client: Client, requests: int, faults: Counter[str]
) -> Counter[str]:
    """How many were decided, downgraded, denied, or answered otherwise."""
    answers: Counter[str] = Counter()
    await serve_assignments(client, stage.settings, cost_of)
    names = iter(range(requests))

    async def ask_some() -> None:
        for name in names:
            answers[await _ask(stage, client, a_request(name, push_assignment=True), faults)] += 1

    await asyncio.gather(*(ask_some() for _ in range(IN_FLIGHT)))
    return answers


async def _ask(stage: Stage, client: Client, request: bytes, faults: Counter[str]) -> str:
    for _ in range(TRIES):
        try:
            return _kind_of(await ask(client, stage.settings, request, timeout_s=PATIENCE_S))
        except NoAnswer:
            faults["asked again"] += 1
    return "no answer"


def _kind_of(answer: Json) -> str:
    if not answer["ok"]:
        code: str = answer["error"]["code"]
        return code
    return "downgraded" if "downgraded_by" in answer["decision"]["metadata"] else "decided"


async def kill_often(
    stage: Stage, dice: Random, pause_s: tuple[float, float], done: Counter[str]
) -> None:
    """Until cancelled: kill -9 of one router, which starts again; a clock that is five minutes off,
    or right again.
    """
    while True:
        await asyncio.sleep(dice.uniform(*pause_s))
        router = dice.choice(stage.routers)
        if router.is_running:
            router.kill()
            done["kills"] += 1
        router.spawn()
        wrong = dice.choice(stage.routers)
        if wrong.is_ready and wrong.is_running:
            wrong.step_clock(dice.choice(list(STEP)))
            done["clock steps"] += 1
