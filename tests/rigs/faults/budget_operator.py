"""An operator who books credits by commands that are killed, and runs each again with its --id
until it says that it is booked.
"""

import asyncio
import json
from asyncio.subprocess import DEVNULL, PIPE
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from random import Random
from typing import Any

import orjson
from msgspec import Struct

from router.core.crashpoints import KILLED_EXIT_CODE
from tests.rigs.faults.stage import Stage
from tests.support.cli import COMMAND, call_command, clean_environment
from tests.support.router_streams import read_stream

KILLED_WITHIN_S = (0.4, 3.0)  # of its start; a start takes most of a second
LEAST_EVENTS = 10  # before the first credit
OF_A_BUDGET = "month/policy=default"  # the budget that is credited alone


class Credit(Struct, frozen=True):
    """One command: its words after `router`, and its --id."""

    words: tuple[str, ...]
    command_id: str


class BudgetOperator:
    """`credits`: those that stand. Each takes something off, so no budget is overspent by it."""

    def __init__(self, stage: Stage, dice: Random) -> None:
        self._stage = stage
        self._dice = dice
        self._task: asyncio.Task[None] | None = None
        self._is_over = False
        self.credits: list[Credit] = []

    def start(self, done: Counter[str]) -> None:
        self._task = asyncio.create_task(self._book_often(done))

    async def finish(self) -> None:
        """The credit that is being booked is booked to its end."""
        self._is_over = True
        if self._task is not None:
            await self._task

    def count_of_a_budget(self) -> int:
        """How many of the credits are of one budget alone."""
        return sum(one.words[0] == "budget" for one in self.credits)

    async def _book_often(self, done: Counter[str]) -> None:
        while not self._is_over:
            events = await self._read_outcomes()
            if len(events) < LEAST_EVENTS:
                await asyncio.sleep(0.2)
                continue
            credit = self._choose(events, len(self.credits))
            done["commands killed"] += await self._book(credit)
            self.credits.append(credit)

    async def _read_outcomes(self) -> list[dict[str, Any]]:
        client = await self._stage.client()
        try:
            state = (await client.jsm().stream_info(self._stage.settings.streams.usage.name)).state
            if state.messages < LEAST_EVENTS:
                return []
            stored = [
                await client.jsm().get_msg(self._stage.settings.streams.usage.name, n)
                for n in range(1, LEAST_EVENTS + 1)
            ]
        finally:
            await client.close()
        return [
            event for one in stored if "adjustment" not in (event := json.loads(one.data or b"{}"))
        ]

    def _choose(self, events: Sequence[dict[str, Any]], number: int) -> Credit:
        """In turn: one bill, a period's bills, a budget alone."""
        amount = f"-0.00{self._dice.randrange(1, 5)}{self._dice.randrange(10)}"
        shared = ("--amount", amount, "--reason", "a test of budgets", "--id", f"credit-{number}")
        if number % 3 == 2:
            return Credit(("budget", "adjust", "acme", OF_A_BUDGET, *shared), f"credit-{number}")
        event = self._dice.choice(events)
        if number % 3 == 1:
            day = f"{datetime.now(UTC):%Y-%m-%d}"
            where = (
                "--period",
                day,
                "--provider",
                event["provider_id"],
                "--policy",
                self._dice.choice(("default", "cheap")),
            )
        else:
            where = ("--assignment", event["assignment_id"])
            # one bill may be credited often, and stays above 0
            shared = ("--amount", "-0.000001", *shared[2:])
        return Credit(("usage", "adjust", "--tenant", "acme", *where, *shared), f"credit-{number}")

    async def _book(self, credit: Credit) -> int:
        """How often it was killed before it was booked."""
        for kills in range(100):
            status = await self._run(credit, is_last=kills >= 3)
            if status == 0:
                return kills
            assert status in (KILLED_EXIT_CODE, -9), (credit, status)
        raise AssertionError(f"{credit} is never booked")

    async def _run(self, credit: Credit, *, is_last: bool) -> int:
        """Killed after the event is stored, or at some time; or not, at the last run."""
        at_event = not is_last and self._dice.random() < 0.5
        environ = clean_environment({"CRASHPOINT": "adjustment_stored"} if at_event else None)
        # results come before credits
        words = ("nice", *COMMAND, *credit.words, "--json", "--nats-url", self._stage.url)
        process = await asyncio.create_subprocess_exec(
            *words, env=environ, stdout=DEVNULL, stderr=PIPE
        )
        try:
            async with asyncio.timeout(
                None if is_last or at_event else self._dice.uniform(*KILLED_WITHIN_S)
            ):
                _, said = await process.communicate()
        except TimeoutError:
            with suppress(ProcessLookupError):  # it ended meanwhile
                process.kill()
            _, said = await process.communicate()
        assert process.returncode in (0, KILLED_EXIT_CODE, -9), said.decode()
        return process.returncode


async def audit_credits(stage: Stage, credits_: Sequence[Credit]) -> bool:
    """Whether each of them has left one event in the stream, and one audit event."""
    client = await stage.client()
    stored = [
        orjson.loads(data)
        for _, data, _ in await read_stream(client, stage.settings.streams.usage.name)
    ]
    await client.close()
    booked = [event["event_id"] for event in stored if "adjustment" in event]
    audited = (
        await asyncio.to_thread(
            call_command, "audit", "--what", "adjust", "--json", "--nats-url", stage.url
        )
    ).lines
    names = Counter(one["after"]["id"] for one in audited)
    return len(booked) == len(set(booked)) == len(credits_) and names == Counter(
        one.command_id for one in credits_
    )
