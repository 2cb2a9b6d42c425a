"""T22: each guard taken away in turn; a check that would not notice is worth nothing.

`violations` drives one message, and then a second, through every place at which the process can
die, and says what was lost or doubled. With all guards there is nothing to say.
"""

import fcntl
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from router.agents import batch as batch_module
from router.agents import database, outgoing, schema
from router.agents.database import StoreFile
from router.agents.state import StateTransaction
from router.agents.store import KnownEvent, Store
from router.core.errors import Misconfigured
from router.core.outcome import Dead, Done, Fault, Outcome, PublishAck
from router.delivery.consume.settle import Settler
from tests.support.agents import BATCH_POINTS, BatchBench, a_batch_bench, a_message
from tests.support.delivery import a_processor

SENT_POINTS = ("before_publish", "after_publish", "after_commit", "after_ack")


class Killed(BaseException):
    """The process is gone."""


def violations(home: Path) -> list[str]:
    """What one death at each point loses or doubles, after the restart and the redelivery that
    follow it.
    """
    found = [
        said
        for point in (*BATCH_POINTS, *SENT_POINTS)
        for said in _story(home / f"{point}.db", point)
    ]
    return [*found, *_failures(home / "failing.db"), *_file(home / "file.db")]


def _story(path: Path, point: str) -> Iterator[str]:
    stream: Counter[str] = Counter()
    acknowledged: set[int] = set()
    with a_batch_bench(path) as bench:
        for sequence in (1, 2):
            _life(bench, stream, acknowledged, [sequence], point)
            bench.reopen()
            _start(bench, stream)
        left = [sequence for sequence in (1, 2) if sequence not in acknowledged]
        _life(bench, stream, acknowledged, left, None)
        for key in ("k-1", "k-2"):
            times = bench.times(key)
            if times != 1:
                yield f"{point}: {key} was applied {times} times"
    if len(stream) != 2 or set(stream.values()) != {1}:
        yield f"{point}: outgoing messages {sorted(stream.values())}"


def _life(
    bench: BatchBench,
    stream: Counter[str],
    acknowledged: set[int],
    sequences: list[int],
    point: str | None,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch_module, "crashpoint", _dies_at(point))
        dies = _dies_at(point)
        try:
            outcomes = bench.batch.handle([a_message(sequence) for sequence in sequences])
            for sequence, outcome in zip(sequences, outcomes, strict=True):
                dies("before_publish")
                _publish(bench, stream, outcome)
                dies("after_publish")
                dies("after_commit")
                acknowledged.add(sequence)
                dies("after_ack")
        except Killed:
            pass


def _start(bench: BatchBench, stream: Counter[str]) -> None:
    for row in bench.store.list_resumable(5):
        bench.batch.resume(row)
    for one in bench.store.list_unsent(0, -1):
        stream[one.id] = 1  # inside the window: the same id is one message


def _publish(bench: BatchBench, stream: Counter[str], outcome: Outcome) -> None:
    if isinstance(outcome, Done):
        for effect in outcome.effects:
            stream[effect.id] = 1
            bench.publish_acks.note([PublishAck(effect.id, "MESHFORGE_EVENTS", 1, False)])


def _failures(path: Path) -> list[str]:
    """One that fails at first, beside one that does not."""
    with a_batch_bench(path) as bench:
        bench.batch.handle([a_message(1, fail=1), a_message(2)])
        bench.batch.handle([a_message(1, fail=1, deliveries=2)])
        times = (bench.times("k-1"), bench.times("k-2"))
        attempts = bench.rows("SELECT attempts FROM events WHERE idempotency_key = 'k-1'")
    return (
        []
        if (times, attempts) == ((1, 1), [(2,)])
        else [f"after a failure: applied {times}, attempts {attempts}"]
    )


def _file(path: Path) -> Iterator[str]:
    """What the store's file promises."""
    with a_batch_bench(path) as bench:
        if bench.rows("PRAGMA synchronous") != [(2,)]:
            yield "a commit is not on the disk when it returns"
        with suppress(Misconfigured):
            StoreFile(path).close()
            yield "the store was opened twice"


def _dies_at(wanted: str | None) -> Callable[[str], None]:
    def point(name: str) -> None:
        if name == wanted:
            raise Killed

    return point


def test_with_every_guard_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    """MF-5, MF-6, MF-7."""
    assert violations(tmp_path) == []


def _found_means_done(patch: pytest.MonkeyPatch) -> None:
    """The specification's step 2: whatever is found was processed."""
    find = Store.find
    patch.setattr(
        Store,
        "find",
        lambda self, keys: {
            k: KnownEvent(v.place, schema.APPLIED, v.attempts) for k, v in find(self, keys).items()
        },
    )
    patch.setattr(Store, "list_resumable", lambda *_: [])


def _nothing_is_found(patch: pytest.MonkeyPatch) -> None:
    """No dedupe, and no unique key behind it."""
    patch.setattr(Store, "find", lambda *_: {})
    patch.setattr(
        schema,
        "MIGRATIONS",
        (schema.MIGRATIONS[0].replace("UNIQUE (agent, idempotency_key)", "CHECK (1)"),),
    )


def _status_in_another_commit(patch: pytest.MonkeyPatch) -> None:
    """State first, status and messages after it."""
    apply = Store.apply

    def torn(self: Store, places: Any, emitted: Any, memory: Any) -> None:
        apply(self, [], [], memory)
        self.database.connection.execute("COMMIT")
        batch_module.crashpoint("agent_applying")
        self.database.connection.execute("BEGIN")
        apply(self, places, emitted, [])

    patch.setattr(Store, "apply", torn)


def _unsent_is_forgotten(patch: pytest.MonkeyPatch) -> None:
    """Nothing is sent at start-up or for a duplicate."""
    patch.setattr(Store, "list_unsent", lambda *_: [])
    patch.setattr(Store, "list_unsent_of", lambda *_: [])


def _ids_by_chance(patch: pytest.MonkeyPatch) -> None:
    """An outgoing message's id is another each time it is told."""
    count = iter(range(10_000))
    tell = outgoing.effect_of
    patch.setattr(batch_module, "effect_of", lambda one: _with_id(tell(one), f"{next(count)}"))


def _with_id(effect: Any, text: str) -> Any:
    from msgspec.structs import replace

    return replace(effect, id=text)


def _failures_leave_traces(patch: pytest.MonkeyPatch) -> None:
    """What a failed message changed is kept."""
    patch.setattr(StateTransaction, "rollback", StateTransaction.commit)


def _attempts_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Store, "begin_again", lambda *_: None)


def _commits_are_not_synced(patch: pytest.MonkeyPatch) -> None:
    """NORMAL: a power failure may take back what was acknowledged."""
    patch.setattr(
        database, "_set_up", lambda connection, _: connection.execute("PRAGMA synchronous = NORMAL")
    )


def _two_processes(patch: pytest.MonkeyPatch) -> None:
    """No lock: two of them work on one store."""
    patch.setattr(fcntl, "flock", lambda *_: None)


MUTANTS = [
    _found_means_done,
    _nothing_is_found,
    _status_in_another_commit,
    _unsent_is_forgotten,
    _ids_by_chance,
    _failures_leave_traces,
    _attempts_are_not_counted,
    _commits_are_not_synced,
    _two_processes,
]


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.__name__.strip("_") for mutant in MUTANTS])
def test_a_guard_that_is_taken_away_is_missed(
    mutant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MF-7."""
    mutant(monkeypatch)
    assert violations(tmp_path) != []


async def _termed_before_its_letter() -> bool:
    async with a_processor(
        lambda _: Dead(Fault("c", "hopeless")), dead_letter_ack=b"+TERM"
    ) as bench:
        bench.take()
        return bool(bench.acks())


async def test_a_term_before_its_dead_letter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """MF-8: a TERM deletes the message's body in a work queue."""
    assert not await _termed_before_its_letter()
    monkeypatch.setattr(Settler, "settle", lambda self, case: self._on_stored(case, ()))
    assert await _termed_before_its_letter()
