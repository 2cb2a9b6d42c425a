"""Issue 3, story 7 of the dead letters: a replay is killed, again and again; run again, every
message is processed once.
"""

import asyncio
import json
import random
import signal
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.cli import clean_environment
from tests.support.forking import ForkedProgram, fork_server
from tests.support.kills import KILLED
from tests.support.replays import REPLAY
from tests.support.service import a_router, names_for, settings_for
from tests.support.stories import MessageRecorder, a_request, is_settled
from tests.support.waiting import until

POINTS = (  # each run dies at the next one; the counts lie inside what is left by then
    "replay_noted",
    "replay_posted",
    "replay_finished",
    "replay_proven",
    "replay_finished",
    "replay_removed:2",
    "replay_posted:2",
)


@pytest.mark.slow  # ten processes, each a replay that dies
async def test_a_replay_that_is_killed_anywhere_leaves_no_dead_letter_and_doubles_no_message(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """1 000 dead letters; every named point in turn, then at random."""
    await _story(nc, nats_url, prefix, letters=1_000, rate=300, random_kills=2)


@pytest.mark.matrix
@pytest.mark.slow  # ten thousand dead letters
@pytest.mark.parametrize("seed", range(5))
async def test_ten_thousand_dead_letters_survive_kills_at_random(
    nc: Client, nats_url: str, prefix: str, seed: int
) -> None:
    """10 000 dead letters; every named point in turn, then ten kills at random."""
    random.seed(seed)
    await _story(nc, nats_url, prefix, letters=10_000, rate=4_000, random_kills=10)


async def _story(
    nc: Client, nats_url: str, prefix: str, *, letters: int, rate: int, random_kills: int
) -> None:
    settings = settings_for(nats_url, prefix)
    async with a_router(settings_for(nats_url, prefix, tenants_allowed="another")):
        await _refused(nc, settings, letters)
    kill = Replays(names_for(nats_url, prefix), rate)
    answers = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")

    async with a_router(settings):  # mended: every tenant is served
        for point in POINTS:
            await kill.at(point)
        deaths = sum([await kill.at_random() for _ in range(random_kills)])
        said = await kill.not_at_all()
        await until(lambda: is_settled(nc, settings), within_s=30)
        await until(lambda: len(answers) >= letters, what="every request to be answered")

    assert deaths, "it was never killed at random: the machine is faster than this story"
    assert (said["kept"], said["in_doubt"]) == ([], False)
    assert await _letters(nc, settings) == 0
    assert _requests(answers) == {f"r-{n}": 1 for n in range(letters)}
    assert await _stored(nc, settings) == 2 * letters


async def _refused(nc: Client, settings: Settings, count: int) -> None:
    for n in range(count):
        await nc.publish(settings.decide.subject, a_request(n), headers={"Nats-Msg-Id": f"m-{n}"})
    await until(
        lambda: _has_letters(nc, settings, count), within_s=30, what="every request to be refused"
    )


class Replays:
    """`router dlq replay --all`, as processes that die."""

    def __init__(self, names: Mapping[str, object], rate: int) -> None:
        self._environ = {
            f"ROUTER_{name.upper().replace('.', '__')}": str(value) for name, value in names.items()
        }
        self._rate = rate

    async def at(self, point: str) -> None:
        process = self._start(CRASHPOINT=point)
        await _read_output(process)
        assert process.wait() == KILLED, f"it passed {point}"

    async def at_random(self) -> bool:
        """Whether the kill came before its end."""
        process = self._start()
        # most of it works by then, and none has finished
        await asyncio.sleep(0.2 + random.random() / 2)
        process.send_signal(signal.SIGKILL)
        await _read_output(process)
        return process.wait() == -signal.SIGKILL

    async def not_at_all(self) -> Any:
        """What it says at its good end."""
        process = self._start()
        said = await _read_output(process)
        assert process.wait() == 0, said
        return json.loads(said)

    def _start(self, **environ: str) -> ForkedProgram:
        arguments = ("router", *REPLAY, "--json", "--rate", str(self._rate))
        return fork_server().start(arguments, clean_environment({**self._environ, **environ}))


async def _read_output(process: ForkedProgram) -> str:
    """All of it: the process has ended."""
    said = await asyncio.to_thread(process.stdout.read)
    process.stdout.close()
    return said


def _requests(answers: MessageRecorder) -> dict[str, int]:
    decoded: list[Any] = [
        json.loads(data) for messages in answers.heard.values() for data in messages
    ]
    assert all(answer["ok"] for answer in decoded)
    return dict(Counter(answer["context"]["request_id"] for answer in decoded))


async def _has_letters(nc: Client, settings: Settings, count: int) -> bool:
    return await _letters(nc, settings) == count and await is_settled(nc, settings)


async def _letters(nc: Client, settings: Settings) -> int:
    return (await nc.jsm().stream_info(settings.streams.dlq.name)).state.messages


async def _stored(nc: Client, settings: Settings) -> int:
    return (await nc.jsm().stream_info(settings.streams.decide.name)).state.messages
