"""T14: poison among thousands of healthy messages for an agent: a dead letter each, and who is
healthy hardly waits longer.
"""

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from statistics import quantiles
from typing import Any

import orjson
import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.delivery.wire.api import JetStream
from tests.support.agents import (
    AgentProcess,
    a_command,
    an_agent,
    count_applied,
    is_empty,
    publish_until_stored,
    read_sent,
)
from tests.support.broker import Broker
from tests.support.counting_agent import COUNTED
from tests.support.delivery import connected
from tests.support.kills import KILLED
from tests.support.patient_client import connect_patiently
from tests.support.result_pages import write_page
from tests.support.waiting import until

ONE_IN = 100
# a round of healthy ones, a round with poison, in turns; messages a second
ROUNDS, EACH, RATE = 3, 1000, 100
HEADS = (
    "| round | messages | poison | letters | healthy p50 ms | healthy p99 ms |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: |\n"
)


def is_poison(number: int) -> bool:
    return number % ONE_IN == ONE_IN // 2


class Clock:
    """How long each message took, from its publication to its effect: the message that the agent
    sends.
    """

    def __init__(self) -> None:
        self.sent: dict[str, float] = {}
        self.took: dict[str, float] = {}
        self.poison = 0  # of what was sent: it never has an effect

    async def hear(self, message: Msg) -> None:
        key = orjson.loads(message.data)["payload"]["key"]
        self.took.setdefault(key, (time.perf_counter() - self.sent[key]) * 1000)


@pytest.fixture(autouse=True)
def no_tracebacks() -> Iterator[None]:
    """None: each failure would cost the loop the time to write one."""
    ours = logging.getLogger("router")
    ours.setLevel(logging.CRITICAL)
    yield
    ours.setLevel(logging.NOTSET)


async def letters(jetstream: JetStream) -> list[dict[str, Any]]:
    return await read_sent(jetstream, "meshforge.failed.>", "MESHFORGE_FAILED")


@pytest.mark.matrix
@pytest.mark.slow  # six thousand messages at a steady rate
async def test_one_in_a_hundred_that_always_raises_does_not_slow_the_others_down(
    broker: Broker, tmp_path: Path
) -> None:
    """T14: healthy p99 at most twice what it is without poison, the rounds taking turns."""
    took: dict[bool, list[float]] = {False: [], True: []}
    poison: list[bytes] = []
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        async with an_agent(broker.url, tmp_path / "w.db", ack_wait=30.0):
            nc = await connect_patiently(broker.url)
            clock = Clock()
            await nc.subscribe(COUNTED, cb=clock.hear)
            for turn in range(2 * ROUNDS):
                is_mixed = turn % 2 == 1
                poison += await _round(nc, clock, range(turn * EACH, (turn + 1) * EACH), is_mixed)
                took[is_mixed] += [
                    clock.took[f"k-{number}"]
                    for number in range(turn * EACH, (turn + 1) * EACH)
                    if f"k-{number}" in clock.took
                ]
                # the retries of this round must not slow the next one down
                await until(lambda: is_empty(jetstream), within_s=120)
            await nc.close()
        await _each_has_one_letter(jetstream, poison)
    cuts = {is_mixed: quantiles(times, n=100) for is_mixed, times in took.items()}
    lines = "".join(
        (
            f"| {name} | {ROUNDS * EACH} | {count} | {count} | {cuts[is_mixed][49]:.1f} | "
            f"{cuts[is_mixed][98]:.1f} |\n"
        )
        for name, is_mixed, count in (
            ("healthy alone", False, 0),
            ("with poison", True, len(poison)),
        )
    )
    note = (
        f"{RATE} messages a second, rounds of {EACH} taking turns, from the publication to "
        "the message that the agent sends. Poison"
        " always raises: five attempts, with 1, 2, 4 and 4 s between them, overlap with "
        "the healthy ones of its round."
    )
    write_page(
        "poison_agents", "Poison among the healthy messages of an agent", HEADS + lines, note
    )
    assert cuts[True][98] <= 2 * cuts[False][98], lines


@pytest.mark.matrix
@pytest.mark.slow  # a process dies five times
async def test_one_that_kills_the_process_among_three_thousand(broker: Broker) -> None:
    """T14: stopped after five starts, once in the dead letters with its body; all others have their
    effect.
    """
    agent, deaths, deadly = AgentProcess(broker.url), 0, a_command("deadly", kill=True)
    async with connected(broker.url) as connection:
        jetstream = JetStream(connection)
        try:
            await asyncio.to_thread(agent.start)
            js = connection.jetstream()
            await asyncio.gather(
                *(publish_until_stored(js, a_command(f"k-{number}")) for number in range(1500))
            )
            await publish_until_stored(js, deadly)
            await asyncio.gather(
                *(
                    publish_until_stored(js, a_command(f"k-{number}"))
                    for number in range(1500, 3000)
                )
            )
            while not await is_empty(jetstream):
                if not agent.is_alive():
                    assert agent.wait() == KILLED
                    deaths += 1
                    agent.spawn()
                await asyncio.sleep(0.02)
        finally:
            agent.remove()
        await _each_has_one_letter(jetstream, [deadly])
    assert deaths == 5
    assert count_applied(agent.store) == {f"k-{number}": 1 for number in range(3000)}


def _body(number: int) -> bytes:
    """Poison raises at every attempt."""
    return a_command(f"k-{number}", fail=99) if is_poison(number) else a_command(f"k-{number}")


async def _round(nc: Client, clock: Clock, numbers: range, is_mixed: bool) -> list[bytes]:
    """Its messages at a steady rate, until every healthy one has its effect; the poison among them."""
    js, since, poison = nc.jetstream(), time.perf_counter(), []
    storing = []
    for place, number in enumerate(numbers):
        await asyncio.sleep(max(0.0, since + place / RATE - time.perf_counter()))
        body = _body(number) if is_mixed else a_command(f"k-{number}")
        if is_mixed and is_poison(number):
            poison.append(body)
            clock.poison += 1
        clock.sent[f"k-{number}"] = time.perf_counter()
        storing.append(asyncio.create_task(publish_until_stored(js, body)))
    await asyncio.gather(*storing)
    await until(lambda: len(clock.took) == len(clock.sent) - clock.poison, within_s=120)
    return poison


async def _each_has_one_letter(jetstream: JetStream, bodies: list[bytes]) -> None:
    """Each poisoned message has exactly one dead letter, which holds its body; no other message has
    one.
    """
    found = Counter(letter["message"]["payload"].encode() for letter in await letters(jetstream))
    assert found == dict.fromkeys(bodies, 1)
