"""Hashes and replays: the same content gives the same hash, in any order, any number of times."""

import os
import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from router.agents.adapter import Context, Outgoing
from router.agents.envelope import Envelope
from router.agents.replay import Hashes, ReplayDiverged, hashes_of, replay
from router.core.errors import Misconfigured
from router.core.message import Message
from tests.support.agents import a_batch_bench, a_message
from tests.support.counting_agent import CountingAgent
from tests.support.result_pages import write_page

ROOT = Path(__file__).parents[2]


def worked_on(path: Path, deliveries: Sequence[Message], batch: int = 7) -> Hashes:
    """A store that was handed these deliveries."""
    with a_batch_bench(path) as bench:
        for start in range(0, len(deliveries), batch):
            bench.batch.handle(deliveries[start : start + batch])
        return hashes_of(bench.database.connection)


def test_redeliveries_and_failures_change_no_hash(tmp_path: Path) -> None:
    """MF-11."""
    once = [a_message(number) for number in range(1, 30)]
    again = [one for message in once for one in (message, replace(message, deliveries=2))]
    assert worked_on(tmp_path / "a.db", once) == worked_on(tmp_path / "b.db", again)


def test_any_order_gives_one_state_hash_and_the_order_of_arrival_another(tmp_path: Path) -> None:
    """MF-11, T6: twenty shuffles."""
    messages = [a_message(number) for number in range(1, 40)]
    found = []
    for number in range(20):
        shuffled = random.Random(number).sample(messages, len(messages))
        found.append(worked_on(tmp_path / f"{number}.db", shuffled, batch=1 + number))
    assert len({one.state for one in found}) == 1
    assert len({one.log for one in found}) == 20


def test_streams_that_were_made_anew_give_one_state_hash_in_any_order(tmp_path: Path) -> None:
    """MF-11: two streams of one name gave the same sequences to different messages."""
    messages = [
        a_message(sequence, f"k-{life}-{sequence}") for life in range(2) for sequence in range(1, 6)
    ]
    there, back = (
        worked_on(tmp_path / "a.db", messages),
        worked_on(tmp_path / "b.db", messages[::-1]),
    )
    assert there.state == back.state


def test_other_content_gives_another_hash(tmp_path: Path) -> None:
    """MF-11."""
    one = worked_on(tmp_path / "a.db", [a_message(1, "k", note="x")])
    other = worked_on(tmp_path / "b.db", [a_message(1, "k", note="y")])
    assert one.state != other.state


def test_a_hundred_replays_give_one_hash(tmp_path: Path) -> None:
    """MF-11, T18: also what applying did is the same, and the order in which a failure came late."""
    source = tmp_path / "s.db"
    worked_on(source, [a_message(number, fail=number % 3) for number in range(1, 10)])
    worked_on(source, [a_message(number, fail=number % 3, deliveries=2) for number in range(1, 10)])
    worked_on(source, [a_message(number, fail=number % 3, deliveries=3) for number in range(1, 10)])
    results = [replay(CountingAgent(), source, tmp_path / f"{number}.db") for number in range(100)]
    assert all(result.is_same for result in results)
    assert len({result.replayed for result in results}) == 1


ELSEWHERE = {"PYTHONHASHSEED": "7", "TZ": "Asia/Kathmandu", "LC_ALL": "tr_TR.UTF-8"}
# interpreters of other versions that have msgspec and orjson, with ":" between them
OTHERS = "ROUTER_TEST_PYTHONS"
REPLAYS = 100
EVENTS = 1_000
SCRIPT = """
import sys, time
from pathlib import Path
from router.agents.replay import replay
from tests.support.counting_agent import CountingAgent
source, fresh, times = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
since = time.perf_counter()
found = [replay(CountingAgent(), source, fresh / f"{number}.db").replayed for number in range(times)]
rate = sum(one.events for one in found) / (time.perf_counter() - since)
print(".".join(map(str, sys.version_info[:3])), round(rate), *{f"{one.state}-{one.log}-{one.effects}" for one in found})
"""


def replayed_by(
    python: str, source: Path, fresh: Path, times: int, *options: str
) -> tuple[str, int, list[str]]:
    """Its version, events a second, and every hash that it came to."""
    fresh.mkdir()
    command = [python, *options, "-c", SCRIPT, str(source), str(fresh), str(times)]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env=ELSEWHERE, check=False
    )
    assert done.returncode == 0, done.stderr
    version, rate, *hashes = done.stdout.split()
    return version, int(rate), hashes


@pytest.mark.parametrize("options", [(), ("-O",)], ids=["plain", "optimised"])
def test_another_process_replays_to_the_same_hash(tmp_path: Path, options: tuple[str, ...]) -> None:
    """T18: with another hash seed, time zone and locale, as another machine would have."""
    stored = worked_on(tmp_path / "s.db", [a_message(number) for number in range(1, 10)])
    _, _, hashes = replayed_by(sys.executable, tmp_path / "s.db", tmp_path / "fresh", 1, *options)
    assert hashes == [f"{stored.state}-{stored.log}-{stored.effects}"]


@pytest.mark.matrix
@pytest.mark.slow  # a hundred replays by each interpreter
def test_other_versions_of_python_replay_to_the_same_hash_a_hundred_times(tmp_path: Path) -> None:
    """T18: 3.11 and those that the environment names."""
    stored = worked_on(
        tmp_path / "s.db",
        [a_message(number, fail=number % 3) for number in range(1, EVENTS + 1)],
        batch=50,
    )
    lines = ""
    for place, python in enumerate(
        [sys.executable, *filter(None, os.environ.get(OTHERS, "").split(":"))]
    ):
        version, rate, hashes = replayed_by(
            python, tmp_path / "s.db", tmp_path / f"fresh{place}", REPLAYS
        )
        assert hashes == [f"{stored.state}-{stored.log}-{stored.effects}"], (version, hashes)
        lines += f"| {version} | {REPLAYS} | {EVENTS} | {len(hashes)} | {rate:,} |\n"
    head = (
        "| Python | replays | events each | hashes | events/s |\n"
        "| --- | ---: | ---: | ---: | ---: |\n"
    )
    note = (
        f"One store, written by the first of them; `{OTHERS}` names the others. Hash seed, "
        "time zone and locale are not the writer's."
    )
    write_page("replay_pythons", "A store replayed by other versions of Python", head + lines, note)


def test_an_agent_that_is_not_deterministic_is_found_out(tmp_path: Path) -> None:
    """MF-11."""
    worked_on(tmp_path / "s.db", [a_message(1)])
    result = replay(Fickle(), tmp_path / "s.db", tmp_path / "f.db")
    assert not result.is_same
    assert result.stored.state == result.replayed.state, (
        "what came is the same; what was made of it is not"
    )


def test_an_agent_that_fails_at_what_it_applied_before_is_told_with_the_key(tmp_path: Path) -> None:
    worked_on(tmp_path / "s.db", [a_message(1)])
    with pytest.raises(ReplayDiverged, match="'k-1'"):
        replay(Broken(), tmp_path / "s.db", tmp_path / "f.db")


def test_a_replay_writes_over_nothing(tmp_path: Path) -> None:
    worked_on(tmp_path / "s.db", [a_message(1)])
    with pytest.raises(Misconfigured, match="exists"):
        replay(CountingAgent(), tmp_path / "s.db", tmp_path / "s.db")


class Fickle(CountingAgent):
    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        return [Outgoing("evt.other", "other")]


class Broken(CountingAgent):
    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        raise RuntimeError("no")
