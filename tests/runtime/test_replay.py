"""Hashes and replays: the same content gives the same hash, in any order, any number of times."""

import random
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace

from router.errors import Misconfigured
from router.message import Message
from router.runtime.adapter import Context, Outgoing
from router.runtime.envelope import Envelope
from router.runtime.hashes import Hashes, hashes_of
from router.runtime.replay import Diverged, replay
from tests.support.agents import a_bench, a_message
from tests.support.witness import Witness

ROOT = Path(__file__).parents[2]


def worked_on(path: Path, deliveries: Sequence[Message], batch: int = 7) -> Hashes:
    """A store that was handed these deliveries."""
    with a_bench(path) as bench:
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
    results = [replay(Witness(), source, tmp_path / f"{number}.db") for number in range(100)]
    assert all(result.is_same for result in results)
    assert len({result.replayed for result in results}) == 1


def test_another_process_replays_to_the_same_hash(tmp_path: Path) -> None:
    """T18: with another hash seed, as another machine would have."""
    stored = worked_on(tmp_path / "s.db", [a_message(number) for number in range(1, 10)])
    script = (
        "from pathlib import Path; from router.runtime.replay import replay; from tests.support.witness import Witness;"
        f"print(replay(Witness(), Path({str(tmp_path / 's.db')!r}), Path({str(tmp_path / 'fresh.db')!r})).replayed.effects)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, env={"PYTHONHASHSEED": "7"}, check=True)
    assert done.stdout.strip() == stored.effects


def test_an_agent_that_is_not_deterministic_is_found_out(tmp_path: Path) -> None:
    """MF-11."""
    worked_on(tmp_path / "s.db", [a_message(1)])
    result = replay(Fickle(), tmp_path / "s.db", tmp_path / "f.db")
    assert not result.is_same
    assert result.stored.state == result.replayed.state, "what came is the same; what was made of it is not"


def test_an_agent_that_fails_at_what_it_applied_before_is_told_with_the_key(tmp_path: Path) -> None:
    worked_on(tmp_path / "s.db", [a_message(1)])
    with pytest.raises(Diverged, match="'k-1'"):
        replay(Broken(), tmp_path / "s.db", tmp_path / "f.db")


def test_a_replay_writes_over_nothing(tmp_path: Path) -> None:
    worked_on(tmp_path / "s.db", [a_message(1)])
    with pytest.raises(Misconfigured, match="exists"):
        replay(Witness(), tmp_path / "s.db", tmp_path / "s.db")


class Fickle(Witness):
    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        return [Outgoing("evt.other", "other")]


class Broken(Witness):
    def apply(self, ctx: Context, envelope: Envelope) -> Sequence[Outgoing]:
        raise RuntimeError("no")
