"""The store's file: one process, this version, on the disk when a commit returns; what goes wrong
is said, and nothing is acked.
"""

import multiprocessing
import os
import sqlite3
from pathlib import Path

import pytest

from router.agents import schema
from router.agents.database import StoreFailed, StoreFile, open_read_only
from router.agents.store import Store
from router.core.errors import Misconfigured
from tests.support.agents import BatchBench, a_batch_bench, a_message


def test_a_second_process_is_refused_and_told_who_has_it(tmp_path: Path) -> None:
    """MF-12, T16."""
    database = StoreFile(tmp_path / "s.db")
    with multiprocessing.get_context("spawn").Pool(1) as other:
        said = other.apply(_try_to_open, (str(tmp_path / "s.db"),))
    assert said.endswith(f"is in use by process {os.getpid()}: one process per store")
    database.close()
    StoreFile(tmp_path / "s.db").close()


def _try_to_open(path: str) -> str:
    try:
        StoreFile(Path(path))
    except Misconfigured as exc:
        return str(exc)
    return "opened"


def test_the_same_file_by_another_name_is_the_same_store(tmp_path: Path) -> None:
    (tmp_path / "other.db").symlink_to(tmp_path / "s.db")
    database = StoreFile(tmp_path / "s.db")
    with pytest.raises(Misconfigured, match="in use"):
        StoreFile(tmp_path / "other.db")
    database.close()


def test_a_commit_is_synced(tmp_path: Path) -> None:
    """MF-7: FULL is 2; NORMAL could take back what was acknowledged."""
    database = StoreFile(tmp_path / "s.db")
    assert database.connection.execute("PRAGMA synchronous").fetchone() == (2,)
    assert database.connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    database.close()


def test_a_newer_schema_is_refused_and_an_older_one_brought_forward(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "s.db"
    with a_batch_bench(path) as bench:
        bench.batch.handle([a_message(1)])
    monkeypatch.setattr(
        schema, "MIGRATIONS", (*schema.MIGRATIONS, "ALTER TABLE events ADD COLUMN note TEXT;")
    )
    with a_batch_bench(path) as bench:
        assert bench.rows("SELECT idempotency_key, note FROM events") == [("k-1", None)]
    monkeypatch.undo()
    with pytest.raises(Misconfigured, match="schema version 2, this program knows 1"):
        StoreFile(path)
    with pytest.raises(Misconfigured, match="schema version 2"), open_read_only(path):
        pass


def test_another_programs_file_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE theirs (x)")
    with pytest.raises(Misconfigured, match="not an agent's event store"):
        StoreFile(path)
    assert sqlite3.connect(path).execute("SELECT count(*) FROM sqlite_schema").fetchone() == (1,)


def test_no_sqlite_file_at_all_is_said_to_be_damaged(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    path.write_bytes(b"this is no database" * 100)
    with pytest.raises(StoreFailed, match="no SQLite file"):
        StoreFile(path)


def test_a_damaged_page_ends_the_work(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with a_batch_bench(path) as bench:
        bench.batch.handle([a_message(number) for number in range(1, 200)])
    data = bytearray(path.read_bytes())
    data[4096 * 2 :] = os.urandom(len(data) - 4096 * 2)
    path.write_bytes(data)
    with pytest.raises(StoreFailed, match="damaged"), a_batch_bench(path) as bench:
        bench.batch.handle([a_message(number) for number in range(1, 400)])


def test_a_full_disk_ends_the_work_and_nothing_is_said_of_the_batch(tmp_path: Path) -> None:
    with a_batch_bench(tmp_path / "s.db") as bench:
        (pages,) = bench.rows("PRAGMA page_count")[0]
        bench.database.connection.execute(f"PRAGMA max_page_count = {pages + 4}")
        with pytest.raises(StoreFailed, match="disk is full"):
            _fill(bench)
        assert bench.database.connection.in_transaction is False


def _fill(bench: BatchBench) -> None:
    for start in range(1, 5000, 100):
        bench.batch.handle([a_message(number) for number in range(start, start + 100)])


def test_a_store_that_fails_while_an_agent_reads_its_state_is_no_messages_fault(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """MF-4: the message spends no attempt on it, and no dead letter is written."""
    with a_batch_bench(tmp_path / "s.db") as bench:

        def fail(_: object, __: str) -> bytes:
            raise StoreFailed(bench.path, sqlite3.OperationalError())

        monkeypatch.setattr(Store, "read_state", fail)
        with pytest.raises(StoreFailed):
            bench.batch.handle([a_message(1)])


def test_a_file_that_another_program_holds_is_said_to_be_locked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.agents.database.BUSY_MS", 10)
    with a_batch_bench(tmp_path / "s.db") as bench:
        backup = sqlite3.connect(tmp_path / "s.db", isolation_level=None)
        backup.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreFailed, match="holds a lock"):
            bench.batch.handle([a_message(1)])
        backup.execute("ROLLBACK")
        backup.close()
        bench.batch.handle([a_message(1)])
        assert bench.times("k-1") == 1


def test_a_store_is_read_while_an_agent_works_on_it(tmp_path: Path) -> None:
    with a_batch_bench(tmp_path / "s.db") as bench:
        bench.batch.handle([a_message(1)])
        with open_read_only(tmp_path / "s.db") as db:
            assert db.execute("SELECT count(*) FROM events").fetchone() == (1,)


def test_a_store_that_is_not_there_is_not_made_by_looking(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="there is no"), open_read_only(tmp_path / "none.db"):
        pass
    assert not (tmp_path / "none.db").exists()


def test_what_is_left_is_found_without_a_look_at_what_is_done(tmp_path: Path) -> None:
    """A store of a million events opens as fast as an empty one: each query of the start has an
    index of what is open.
    """
    with a_batch_bench(tmp_path / "s.db") as bench:
        bench.batch.handle([a_message(number) for number in range(1, 300)])
        asked: list[str] = []
        bench.database.connection.set_trace_callback(asked.append)
        bench.store.list_resumable(5)
        bench.store.list_unsent(0, -1)
        type(bench.store)(bench.database, "witness")
        bench.database.connection.set_trace_callback(None)
        plans = [str(bench.rows(f"EXPLAIN QUERY PLAN {query}")) for query in asked]
    assert len(plans) == 4
    assert [
        ("events_received" in plan, "outgoing_unsent" in plan, "SCAN events'" in plan)
        for plan in plans[:2]
    ] == [(True, False, False), (False, True, False)]
    assert not any("sqlite_autoindex" in plan for plan in plans)
