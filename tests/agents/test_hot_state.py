"""State that is kept at hand is what was committed, and no more of it than there is room for."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from router.agents import store as store_module
from router.agents.database import StoreFailed
from tests.support.agents import BatchBench, a_batch_bench


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[BatchBench]:
    with a_batch_bench(tmp_path / "w.db") as bench:
        yield bench


def write(bench: BatchBench, name: str, value: bytes | None) -> None:
    with bench.store.transaction():
        bench.store.apply([], [], [(name, value)])
    bench.store.on_commit([(name, value)])


def half_written(bench: BatchBench, name: str, value: bytes) -> None:
    with bench.store.transaction():
        bench.store.apply([], [], [(name, value)])
        raise sqlite3.OperationalError("disk full")


def reads(bench: BatchBench, name: str) -> list[str]:
    """The statements that asking for it takes."""
    said: list[str] = []
    bench.database.connection.set_trace_callback(said.append)
    bench.store.read_state(name)
    bench.database.connection.set_trace_callback(None)
    return said


def test_what_was_committed_is_not_read_from_the_file_again(bench: BatchBench) -> None:
    write(bench, "a", b"1")
    assert reads(bench, "a") == []
    assert bench.store.read_state("a") == b"1"


def test_what_was_read_once_is_not_read_again_either(bench: BatchBench) -> None:
    write(bench, "a", b"1")
    bench.reopen()
    assert len(reads(bench, "a")) == 1
    assert reads(bench, "a") == []


def test_a_commit_that_fails_leaves_nothing_at_hand(bench: BatchBench) -> None:
    write(bench, "a", b"1")
    with pytest.raises(StoreFailed):
        half_written(bench, "a", b"2")
    assert bench.store.read_state("a") == b"1"


def test_a_commit_without_its_callback_is_read_from_the_file(bench: BatchBench) -> None:
    write(bench, "a", b"1")
    with bench.store.transaction():
        bench.store.apply([], [], [("a", b"2")])
    assert bench.store.read_state("a") == b"2"


def test_what_is_deleted_is_gone(bench: BatchBench) -> None:
    write(bench, "a", b"1")
    write(bench, "a", None)
    assert bench.store.read_state("a") is None


def test_a_large_value_stays_in_the_file(bench: BatchBench) -> None:
    write(bench, "a", b"1" * (store_module.MAX_HOT_BYTES + 1))
    assert len(reads(bench, "a")) == len(reads(bench, "a")) == 1


def test_only_the_newest_are_at_hand(bench: BatchBench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store_module, "MAX_HOT_VALUES", 2)
    bench.reopen()
    for name in ("a", "b", "c"):
        write(bench, name, b"1")
    assert [len(reads(bench, name)) for name in ("c", "b", "a")] == [0, 0, 1]


def test_what_is_read_stays_at_hand_before_what_was_written_later(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_HOT_VALUES", 2)
    bench.reopen()
    for name in ("a", "b"):
        write(bench, name, b"1")
    reads(bench, "a")
    write(bench, "c", b"1")
    assert [len(reads(bench, name)) for name in ("a", "b")] == [0, 1]


def test_what_one_commit_writes_beyond_the_room_is_read_from_the_file(
    bench: BatchBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store_module, "MAX_HOT_VALUES", 2)
    bench.reopen()
    written = [(name, b"1") for name in ("a", "b", "c", "d")]
    with bench.store.transaction():
        bench.store.apply([], [], written)
    bench.store.on_commit(written)
    assert [len(reads(bench, name)) for name in ("d", "c", "b", "a")] == [0, 0, 1, 1]
