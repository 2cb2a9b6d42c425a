"""Every store of processed keys, held to one suite; and what SQLite alone promises."""

import asyncio
import inspect
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from router.bus import processed as processed_module
from router.bus.processed import (
    BucketProcessed,
    MemoryProcessed,
    Processed,
    SqliteProcessed,
    StoreUnavailable,
)
from router.core.errors import BrokerUnavailable, Misconfigured
from router.core.user_functions import HandlerExited, HandlerMisused
from router.delivery.wire.api import JetStream
from tests.support.delivery import connected

Make = Callable[[str], Processed]  # a store of this durable; the same file or bucket each time
LIVES = (("billing", 2_592_000.0), ("cache", 3_600.0))  # seconds that keys are kept
DURABLE = "sr-consumer-one"


@pytest.fixture(params=["memory", "sqlite", "bucket"])
async def make(
    request: pytest.FixtureRequest, tmp_path: Path, nats_url: str, prefix: str
) -> AsyncIterator[Make]:
    if request.param != "bucket":
        yield (
            lambda durable: (
                MemoryProcessed()
                if request.param == "memory"
                else SqliteProcessed(tmp_path / "keys.db", durable)
            )
        )
        return
    async with connected(nats_url) as connection:
        yield lambda durable: BucketProcessed(
            JetStream(connection), f"{prefix}_keys", durable, ttl_s=60
        )


@pytest.fixture
async def processed(make: Make) -> AsyncIterator[Processed]:
    store = make(DURABLE)
    await store.open()
    yield store
    await store.close()


@pytest.fixture
async def file(tmp_path: Path) -> AsyncIterator[SqliteProcessed]:
    store = SqliteProcessed(tmp_path / "keys.db", DURABLE)
    await store.open()
    yield store
    await store.close()


# -- the suite -------------------------------------------------------------------------------------


async def test_a_key_is_known_once_it_is_marked(processed: Processed) -> None:
    """SR-23: consumers track the keys that they processed."""
    assert not await processed.has("sha256:1")
    assert await processed.mark("sha256:1")
    assert await processed.has("sha256:1")
    assert not await processed.has("sha256:2")


async def test_a_store_that_was_closed_may_be_opened_again(make: Make) -> None:
    """For a consumer that a program runs again."""
    store = make(DURABLE)
    for _ in range(2):
        await store.open()
        await store.mark("k")
        assert await store.has("k")
        assert not await store.mark("k")
        await store.close()


async def test_of_two_that_mark_a_key_one_is_told_that_it_was_there(processed: Processed) -> None:
    """SR-23."""
    assert sorted(await asyncio.gather(processed.mark("k"), processed.mark("k"))) == [False, True]
    assert not await processed.mark("k")


@pytest.mark.parametrize(
    "key", ["a:b", "a.b", "*", ">", "sha256:" + "f" * 64, "k" * 256, "!'\"~/\\"]
)
async def test_any_legal_key_is_only_itself(processed: Processed, key: str) -> None:
    await processed.mark(key)
    assert await processed.has(key)
    assert not await processed.has(key[:-1] + ("x" if key[-1] != "x" else "y"))


async def test_a_durable_does_not_know_what_another_one_processed(make: Make) -> None:
    one, two = make(DURABLE), make("sr-consumer-two")
    for store in (one, two):
        await store.open()
    await one.mark("k")
    assert not await two.has("k")
    for store in (one, two):
        await store.close()


async def test_many_at_once_are_all_kept(processed: Processed) -> None:
    assert all(await asyncio.gather(*(processed.mark(f"k{number}") for number in range(200))))
    assert all(await asyncio.gather(*(processed.has(f"k{number}") for number in range(200))))


async def test_a_key_outlives_the_process_where_the_store_does(make: Make) -> None:
    """SR-23, and docs/explanation/durability.md#protocol: a status that is forgotten guards
    nothing.
    """
    first = make(DURABLE)
    await first.open()
    await first.mark("k")
    await first.close()
    again = make(DURABLE)
    await again.open()
    assert await again.has("k") is not isinstance(again, MemoryProcessed)
    await again.close()


async def test_where_only_keys_are_held_a_write_is_refused(processed: Processed) -> None:
    if isinstance(processed, SqliteProcessed):
        return
    with pytest.raises(Misconfigured, match="SQLite"):
        await processed.mark("k", lambda cursor: None)
    assert not await processed.has("k")


# -- SQLite ----------------------------------------------------------------------------------------


def _count(cursor: sqlite3.Cursor) -> None:
    cursor.execute("CREATE TABLE IF NOT EXISTS counted (n INTEGER)")
    cursor.execute("INSERT INTO counted VALUES (1)")


def _counted(path: Path) -> int:
    with sqlite3.connect(path) as connection:
        return int(connection.execute("SELECT count(*) FROM counted").fetchone()[0])


async def test_a_key_and_what_is_written_with_it_are_one_transaction(
    file: SqliteProcessed, tmp_path: Path
) -> None:
    """SR-24, X5: the effect happens with the mark, once, however often the message comes."""
    told = await asyncio.gather(*(file.mark("k", _count) for _ in range(5)))
    assert (sorted(told), _counted(tmp_path / "keys.db")) == ([False] * 4 + [True], 1)


async def test_a_write_that_fails_undoes_itself_and_its_key_alone(
    file: SqliteProcessed, tmp_path: Path
) -> None:
    """SR-24: nothing is marked that was not processed; its neighbours in the group are."""

    def fail(cursor: sqlite3.Cursor) -> None:
        _count(cursor)
        raise ValueError("no")

    told = await asyncio.gather(
        file.mark("a", _count), file.mark("b", fail), file.mark("c", _count), return_exceptions=True
    )
    assert [type(one) for one in told] == [bool, ValueError, bool]
    assert [await file.has(key) for key in "abc"] == [True, False, True]
    assert _counted(tmp_path / "keys.db") == 2


async def test_a_file_that_is_locked_or_gone_is_told_as_a_store_that_is_away(
    file: SqliteProcessed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is marked, and the consumer pauses: no message spends an attempt on it."""
    file._writer.execute("PRAGMA busy_timeout = 10")
    with sqlite3.connect(tmp_path / "keys.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        told = await asyncio.gather(file.mark("a"), file.mark("b"), return_exceptions=True)
        assert [type(one) for one in told] == [StoreUnavailable, StoreUnavailable]
        assert issubclass(StoreUnavailable, BrokerUnavailable)
        other.execute("ROLLBACK")
    assert await file.mark("a")


async def test_a_full_disk_is_not_the_messages_fault(file: SqliteProcessed) -> None:
    """docs/explanation/durability.md#bus-keys: neither the key nor what was to be written is there,
    and the store is away for both.
    """
    (pages,) = file._writer.execute("PRAGMA page_count").fetchone()
    file._writer.execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreUnavailable, match="full"):
        await file.mark(
            "a", lambda cursor: cursor.execute("CREATE TABLE big AS SELECT zeroblob(1000000)")
        )
    file._writer.execute("PRAGMA max_page_count = 1000000")
    assert await file.mark("a")


async def test_old_keys_go(tmp_path: Path) -> None:
    now = [1_000_000.0]
    store = SqliteProcessed(tmp_path / "keys.db", DURABLE, keep_s=100.0, clock=lambda: now[0])
    await store.open()
    await store.mark("old")
    now[0] += 4_000
    await store.mark("new")
    assert [await store.has(key) for key in ("old", "new")] == [False, True]
    await store.close()


async def test_a_durable_removes_its_own_keys_alone(tmp_path: Path) -> None:
    now = [1_000_000.0]
    billing, cache = (
        SqliteProcessed(tmp_path / "keys.db", name, keep_s=keep, clock=lambda: now[0])
        for name, keep in LIVES
    )
    for store in (billing, cache):
        await store.open()
    await billing.mark("k")
    now[0] += 7_200
    await cache.mark("other")
    assert await billing.has("k")
    for store in (billing, cache):
        await store.close()


async def test_a_bucket_without_room_is_away_and_spends_no_attempt(
    nats_url: str, prefix: str
) -> None:
    """The handler has run by then: as its own failure it ran again until there was a dead letter."""
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection)
        store = BucketProcessed(jetstream, f"{prefix}_keys", DURABLE, ttl_s=60)
        await store.open()
        info = await jetstream.stream(f"KV_{prefix}_keys")
        assert info is not None
        await jetstream.ask(f"STREAM.UPDATE.KV_{prefix}_keys", {**info["config"], "max_bytes": 1})
        with pytest.raises(StoreUnavailable, match="bucket"):
            await store.mark("k")


async def test_a_file_of_another_schema_is_refused(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "keys.db") as connection:
        connection.execute("CREATE TABLE processed_schema AS SELECT 7 AS version")
    with pytest.raises(Misconfigured, match="schema version 7"):
        await SqliteProcessed(tmp_path / "keys.db", DURABLE).open()


@pytest.mark.parametrize("place", ["no/such/directory/keys.db", "."])
async def test_a_file_that_cannot_be_opened_is_refused(tmp_path: Path, place: str) -> None:
    with pytest.raises(Misconfigured, match="cannot be used"):
        await SqliteProcessed(tmp_path / place, DURABLE).open()


async def test_several_processes_may_share_a_file(tmp_path: Path) -> None:
    stores = [SqliteProcessed(tmp_path / "keys.db", DURABLE) for _ in range(3)]
    await asyncio.gather(*(store.open() for store in stores))
    marks: list[Awaitable[bool]] = [
        store.mark(f"k{number}", _count) for number in range(20) for store in stores
    ]
    assert sorted(await asyncio.gather(*marks)) == [False] * 40 + [True] * 20
    assert _counted(tmp_path / "keys.db") == 20
    for store in stores:
        await store.close()


async def test_a_new_file_that_another_writes_is_opened_when_that_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As where several processes open it at once: SQLite tells that it is locked without waiting
    for its busy timeout.
    """
    waits = []
    monkeypatch.setattr(processed_module, "BUSY_S", 600.0)
    with sqlite3.connect(
        tmp_path / "keys.db", isolation_level=None, check_same_thread=False
    ) as other:

        def wait(seconds: float) -> None:
            waits.append(seconds)
            other.execute("COMMIT")

        monkeypatch.setattr(processed_module, "sleep", wait)
        other.execute("BEGIN IMMEDIATE")
        await store_again(tmp_path)
    assert len(waits) == 1


async def test_a_new_file_that_stays_locked_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processed_module, "BUSY_S", 0.05)
    with sqlite3.connect(tmp_path / "keys.db", isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Misconfigured, match="locked"):
            await store_again(tmp_path)


async def test_a_trigger_of_another_hand_upon_the_keys_is_refused_and_tables_beside_them_are_not(
    tmp_path: Path,
) -> None:
    """It would run inside every mark: here no key would ever be kept."""
    store = SqliteProcessed(tmp_path / "keys.db", DURABLE)
    await store.open()
    await store.close()
    with sqlite3.connect(tmp_path / "keys.db") as db:
        db.execute("CREATE TABLE loops (id TEXT)")
    await store_again(tmp_path)
    with sqlite3.connect(tmp_path / "keys.db") as db:
        db.execute(
            "CREATE TRIGGER forget AFTER INSERT ON processed BEGIN DELETE FROM processed; END"
        )
    with pytest.raises(Misconfigured, match="of another hand"):
        await store_again(tmp_path)


async def store_again(directory: Path) -> None:
    store = SqliteProcessed(directory / "keys.db", DURABLE)
    await store.open()
    await store.close()


@pytest.mark.parametrize(
    ("error", "seen"),
    [
        (SystemExit(3), HandlerExited),
        (KeyboardInterrupt(), HandlerExited),
        (GeneratorExit(), HandlerExited),
        (asyncio.CancelledError(), HandlerExited),
        (StopIteration(), RuntimeError),
    ],
)
async def test_a_write_that_would_end_its_caller_fails_its_own_message_alone(
    file: SqliteProcessed, error: BaseException, seen: type[Exception]
) -> None:
    def fail(_: object) -> None:
        raise error

    async with asyncio.timeout(60):
        bad, good = await asyncio.gather(
            file.mark("bad", fail), file.mark("good"), return_exceptions=True
        )
        assert (type(bad), good) == (seen, True)
        assert [await file.has(key) for key in ("bad", "good")] == [False, True]
        assert await file.mark("later")


async def test_a_write_that_never_runs_is_refused_and_undone(
    file: SqliteProcessed, tmp_path: Path
) -> None:
    """A coroutine's or a generator's body runs only when it is asked for: here it was lost, and its
    key marked.
    """
    made: list[Any] = []

    async def write_later(cursor: sqlite3.Cursor) -> None:
        _count(cursor)

    def write_piecewise(cursor: sqlite3.Cursor) -> Iterator[None]:
        yield _count(cursor)  # type: ignore[func-returns-value]

    def write_and_return(cursor: sqlite3.Cursor) -> object:
        _count(cursor)
        made.append(write_later(cursor))
        return made[-1]

    writes = {"a": write_later, "b": write_piecewise, "c": write_and_return, "d": _count}
    told = await asyncio.gather(
        *(file.mark(key, write) for key, write in writes.items()), return_exceptions=True
    )
    assert [type(one) for one in told] == [HandlerMisused, HandlerMisused, HandlerMisused, bool]
    assert "it returned a coroutine" in str(told[0])
    assert [await file.has(key) for key in writes] == [False, False, False, True]
    assert _counted(tmp_path / "keys.db") == 1
    assert inspect.getcoroutinestate(made[0]) == inspect.CORO_CLOSED, (
        "Python would warn that it was never awaited"
    )
