"""A child whose event loop stands still is killed and replaced; one that only had no chance to be
heard is not.
"""

import asyncio
from pathlib import Path

import pytest

from router.config import Settings, load
from router.serve.fleet import Fleet, process, process_slot
from router.serve.fleet.process import SilenceCounter
from tests.support.observability import capture_log
from tests.support.waiting import until

HANGING = str(Path(__file__).parents[2] / "support" / "hanging_child.py")


def one_process() -> Settings:
    return load(None, {"processes": 1, "http.port": 0, "process_silence_ms": 1000}, {}).settings


async def test_a_process_that_blocks_its_event_loop_is_killed_and_another_one_takes_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flag = tmp_path / "hang"
    monkeypatch.setattr(process, "PROGRAM", (HANGING, str(flag)))
    monkeypatch.setattr(process_slot, "POLL_INTERVAL_S", 0.05)
    ready = asyncio.Event()
    fleet = Fleet(one_process, lambda nats_url, http: ready.set())
    with capture_log() as lines:
        task = asyncio.create_task(fleet.run())
        await ready.wait()
        await until(lambda: fleet.readiness()["process-1"].ok)
        hung = _read_pid(fleet)
        flag.touch()
        await until(lambda: _read_pid(fleet) not in (0, hung), within_s=60)
        task.cancel()
        await asyncio.wait({task})
    told = [
        (line["pid"], line["silent_s"]) for line in lines.all() if line["event"] == "process.silent"
    ]
    assert (hung, 1.0) in told
    (crash,) = [
        str(line["error"])
        for line in lines.all()
        if line["event"] == "child.crashed" and f"process {hung}" in str(line)
    ]
    assert "was killed by SIGKILL: its event loop said nothing for 1 s" in crash


def _read_pid(fleet: Fleet) -> int:
    check = fleet.readiness()["process-1"]
    return int(check.detail.split()[-1]) if check.ok else 0


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_a_child_that_does_not_answer_is_silent_as_long_as_its_parent_looked(clock: Clock) -> None:
    silence = SilenceCounter(0.5, clock)
    for _ in range(60):
        clock.now += 0.5
        silence.look(heard_at=100.0)
    assert silence.seconds == 30.0


def test_the_time_in_which_the_parent_stood_still_too_is_no_silence_of_the_child(
    clock: Clock,
) -> None:
    """The machine was suspended for an hour, or the parent stopped: the answer is on its way."""
    silence = SilenceCounter(0.5, clock)
    clock.now += 3600.0
    silence.look(heard_at=100.0)
    assert silence.seconds == 1.0
    clock.now += 0.5
    silence.look(heard_at=clock.now)
    assert silence.seconds == 0.0


def test_a_late_answer_ends_the_silence(clock: Clock) -> None:
    silence = SilenceCounter(0.5, clock)
    for _ in range(50):
        clock.now += 0.5
        silence.look(heard_at=100.0)
    silence.look(heard_at=clock.now)
    clock.now += 0.5
    silence.look(heard_at=clock.now - 0.5)
    assert silence.seconds == 0.5
