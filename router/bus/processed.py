"""Which messages a consumer has processed (docs/reference/requirements.md#sr-23): the port, and
where the keys may be kept.

    MemoryProcessed   this process' memory, for tests and for handlers that may run twice
    SqliteProcessed   a file: the mark and what the handler writes are one transaction, so its
                      effect happens once
    BucketProcessed   a key-value bucket: shared by every process of a durable

`tests/bus/test_processed.py` holds all of them to one suite.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from time import sleep
from typing import Protocol, TypeVar

from msgspec import Struct

from router.core.bounded_cache import PartedCache
from router.core.clock import Clock, steady, wall
from router.core.coalescer import GroupCommit
from router.core.crashpoints import crashpoint
from router.core.errors import BrokerRefused, BrokerUnavailable, Misconfigured
from router.core.ids import bucket_prefix
from router.core.ids import key as key_of
from router.core.user_functions import contain_cancellation, require_finished
from router.delivery.wire.api import LAST_SEQUENCE_DIFFERS, JetStream
from router.delivery.wire.topology import Topology, bucket, create

__all__ = [
    "BucketProcessed",
    "MemoryProcessed",
    "Processed",
    "SqliteProcessed",
    "StoreUnavailable",
    "Write",
]


# -- What a consumer asks of the store of processed keys (docs/reference/requirements.md#sr-23),
# and the simplest store: this process' memory.
#
#     has   -> process -> mark -> ACK
#
# A crash between the last two processes a message again. Where a handler's effect is a row in the
# same SQLite file, it returns it as a `Write`, and effect and mark are one transaction: then it
# happens once, whatever dies when (docs/reference/requirements.md#x5).


# writes the handler's effect; a plain function; it must neither commit nor roll back
Write = Callable[[sqlite3.Cursor], object]


class StoreUnavailable(BrokerUnavailable):
    """The keys cannot be read or written. The consumer pauses until they can be, and no message
    spends an attempt.
    """

    code = "store_unavailable"


class Processed(Protocol):
    """The keys of one durable."""

    async def open(self) -> None:
        """Called before the first message. Raises Misconfigured when the store can never work."""

    async def close(self) -> None:
        """Called after the last message."""

    async def has(self, key: str) -> bool:
        """Whether the key was marked before. Raises BrokerUnavailable."""

    async def mark(self, key: str, write: Write | None = None) -> bool:
        """Store the key, and with it what `write` writes. False: another call marked it meanwhile,
        and nothing was written.

        Raises BrokerUnavailable when it is not stored, Misconfigured where nothing can be written,
        HandlerMisused for a `write` that is asynchronous or a generator, and any error of `write`.
        """


def refuse_to_write(write: Write | None) -> None:
    """For a store that holds keys only."""
    if write is not None:
        raise Misconfigured(
            "processed", "a handler that returns what is to be written needs the SQLite store"
        )


class MemoryProcessed:
    """Keeps the newest 100 000 keys in this process, each for `keep_s` seconds; they are lost with
    it.
    """

    def __init__(self, keep_s: float = 7 * 86_400.0) -> None:
        self._keys: PartedCache[str, bool] = PartedCache(100_000)
        self._keep_s = keep_s

    async def open(self) -> None: ...

    async def close(self) -> None: ...

    async def has(self, key: str) -> bool:
        return self._keys.get(key, steady()) is not None

    async def mark(self, key: str, write: Write | None = None) -> bool:
        refuse_to_write(write)
        if await self.has(key):
            return False
        now = steady()
        self._keys.put(key, True, now + self._keep_s, now)
        return True


# -- Processed keys in a key-value bucket, shared by all processes of a durable. Each key is
# created once; the bucket's TTL removes it.


CREATE = {"Nats-Expected-Last-Subject-Sequence": "0"}


class BucketProcessed:
    """`ttl_s`: how long a key is kept, at least as long as its message may be delivered again."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket_name: str,
        durable: str,
        *,
        ttl_s: float,
        replicas: int = 1,
    ) -> None:
        self._jetstream = jetstream
        self._bucket = bucket_name
        self._durable = durable
        self._ttl_s = ttl_s
        self._replicas = replicas

    async def open(self) -> None:
        await create(
            self._jetstream,
            Topology((bucket(self._bucket, ttl=self._ttl_s, replicas=self._replicas),)),
        )

    async def close(self) -> None: ...

    async def has(self, key: str) -> bool:
        return await self._jetstream.get_last(f"KV_{self._bucket}", self._subject(key)) is not None

    async def mark(self, key: str, write: Write | None = None) -> bool:
        refuse_to_write(write)
        try:
            await self._jetstream.publish(
                self._jetstream.write_subject(self._subject(key)), b"1", CREATE
            )
        except BrokerRefused as exc:
            if exc.err_code in LAST_SEQUENCE_DIFFERS:
                return False
            # no room, for one: the handler has run, and must not again
            raise StoreUnavailable(f"bucket {self._bucket}: {exc}") from exc
        return True

    def _subject(self, key: str) -> str:
        return bucket_prefix(self._bucket) + key_of(self._durable, key)


# -- Processed keys in a SQLite file, committed in groups: one fsync for all that are marked at
# the same time.
#
# mark ──┐
# mark ──┼─> BEGIN ─ savepoint: insert key, write ─ savepoint: … ─ COMMIT (fsync) ─> each gets its own result
# mark ──┘
#
# A write that raises undoes itself and its key alone. WAL and synchronous=FULL: what was marked
# stays marked after a power cut. The file may be shared by several durables, by processes of one
# host, and with the tables that handlers write: its `user_version` is theirs.


SCHEMA_VERSION = 1  # what SCHEMA writes down
PROCESSED_SCHEMA = """
BEGIN IMMEDIATE;
CREATE TABLE IF NOT EXISTS processed (
  consumer TEXT NOT NULL, key TEXT NOT NULL, at INTEGER NOT NULL,
  PRIMARY KEY (consumer, key)
) WITHOUT ROWID;
CREATE INDEX IF NOT EXISTS processed_at ON processed (at);
CREATE TABLE IF NOT EXISTS processed_schema (version INTEGER NOT NULL);
INSERT INTO processed_schema SELECT 1 WHERE NOT EXISTS (SELECT * FROM processed_schema);
COMMIT;
"""
SELECT_OWN_TABLES = (
    "SELECT type, name, tbl_name, sql FROM sqlite_schema WHERE tbl_name IN ('processed', "
    "'processed_schema')"
)
A_DAY_S = 86_400.0
BUSY_S = 5.0  # another process may be writing
BUSY_RETRY_S = 0.01
PRUNE_EVERY_S = 3_600.0
OF_THE_FILE = frozenset(
    {
        sqlite3.SQLITE_BUSY,
        sqlite3.SQLITE_CANTOPEN,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_FULL,
        sqlite3.SQLITE_IOERR,
        sqlite3.SQLITE_NOMEM,
        sqlite3.SQLITE_NOTADB,
        sqlite3.SQLITE_READONLY,
    }
)

T = TypeVar("T")


class PendingKey(Struct):
    """One key to be stored, with what the handler writes."""

    key: str
    write: Write | None


class SqliteProcessed:
    """The keys of one durable in a file. `keep_s`: seconds, longer than a message may be delivered
    again.
    """

    def __init__(
        self, path: Path, durable: str, *, keep_s: float = 30 * A_DAY_S, clock: Clock = wall
    ) -> None:
        self._path = path
        self._durable = durable
        self._keep_s = keep_s
        self._clock = clock
        self._commits: GroupCommit[PendingKey, bool] = GroupCommit(self._commit_group)
        self._committing: asyncio.Task[None] | None = None
        self._pruned_at = 0.0
        self._thread: ThreadPoolExecutor
        self._writer: sqlite3.Connection
        self._reader: sqlite3.Connection

    async def open(self) -> None:
        """Open the file; a store that was closed may be opened again.

        Raises Misconfigured for a file of another schema, or one that cannot be opened.
        """
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="processed")
        try:
            self._writer = await self._run_in_thread(self._connect)
            self._reader = self._connect()
        except sqlite3.Error as exc:
            raise Misconfigured("processed", f"{self._path} cannot be used: {exc}") from exc

    async def close(self) -> None:
        if self._committing is not None:
            await self._committing
        self._reader.close()
        await self._run_in_thread(self._writer.close)
        self._thread.shutdown()

    async def has(self, key: str) -> bool:
        # On the loop: a lookup in an index in memory takes microseconds, and a writer never blocks
        # a reader.
        try:
            row = self._reader.execute(
                "SELECT 1 FROM processed WHERE consumer = ? AND key = ?", (self._durable, key)
            ).fetchone()
        except sqlite3.Error as exc:
            raise StoreUnavailable(f"{self._path}: {exc}") from exc
        return row is not None

    async def mark(self, key: str, write: Write | None = None) -> bool:
        is_new = self._commits.add(PendingKey(key, write))
        if self._committing is None:
            self._committing = asyncio.create_task(self._commit_all())
        return await is_new

    async def _commit_all(self) -> None:
        """Commit group after group, until no key waits."""
        try:
            await self._commits.run_until_empty()
        finally:  # where it fails, the next `mark` begins again
            self._committing = None

    async def _commit_group(self, group: Sequence[PendingKey]) -> Sequence[bool | BaseException]:
        try:
            return await self._run_in_thread(partial(self._commit, group))
        except sqlite3.Error as exc:
            return [StoreUnavailable(f"{self._path}: {exc}")] * len(group)
        except BaseException as exc:  # a write that ends the process: no caller may wait for ever
            return [exc] * len(group)

    def _commit(self, group: Sequence[PendingKey]) -> list[bool | Exception]:
        """Runs in the thread. Raises sqlite3.Error: nothing of the group was stored."""
        cursor, now = self._writer.cursor(), self._clock()
        cursor.execute("BEGIN IMMEDIATE")
        try:
            results = [self._mark_one(cursor, mark, int(now)) for mark in group]
            if now - self._pruned_at > PRUNE_EVERY_S:
                cursor.execute(
                    "DELETE FROM processed WHERE consumer = ? AND at < ?",
                    (self._durable, int(now - self._keep_s)),
                )
                self._pruned_at = now
            cursor.execute("COMMIT")
        except BaseException:  # also a cancellation: no transaction may stay open
            if self._writer.in_transaction:
                cursor.execute("ROLLBACK")
            raise
        return results

    def _mark_one(self, cursor: sqlite3.Cursor, mark: PendingKey, now: int) -> bool | Exception:
        cursor.execute("SAVEPOINT one")
        cursor.execute(
            "INSERT OR IGNORE INTO processed VALUES (?, ?, ?)", (self._durable, mark.key, now)
        )
        is_new = cursor.rowcount == 1
        result: bool | Exception = is_new
        if is_new and mark.write is not None:
            try:
                with contain_cancellation:
                    require_finished("write", mark.write(self._writer.cursor()))
            except Exception as exc:  # the handler's own failure: only its message fails
                if _is_of_the_file(exc):
                    raise
                cursor.execute("ROLLBACK TO one")
                result = exc
        cursor.execute("RELEASE one")
        crashpoint("bus_marking")
        return result

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=BUSY_S, isolation_level=None, check_same_thread=False
        )
        _set_wal(connection)
        connection.execute("PRAGMA synchronous = FULL")
        connection.executescript(PROCESSED_SCHEMA)
        (version,) = connection.execute("SELECT version FROM processed_schema").fetchone()
        is_current = version == SCHEMA_VERSION
        wrong = (
            _describe_foreign(connection)
            if is_current
            else f"has schema version {version}, this program knows {SCHEMA_VERSION}"
        )
        if wrong:
            connection.close()
            raise Misconfigured("processed", f"{self._path} {wrong}")
        return connection

    async def _run_in_thread(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)


def _set_wal(connection: sqlite3.Connection) -> None:
    """Make it a WAL file. Raises sqlite3.Error.

    While another process does that with a new file, or writes to it, SQLite fails at once: here it
    does not wait for its busy timeout.
    """
    ends_at = steady() + BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as exc:
            if exc.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or steady() > ends_at:
                raise
        sleep(BUSY_RETRY_S)


def _describe_foreign(connection: sqlite3.Connection) -> str:
    """Describe indexes and triggers on our two tables that are not ours: they would run, or fail,
    inside every mark.

    Other tables belong to the handlers.
    """
    tables = connection.execute(SELECT_OWN_TABLES).fetchall()
    with sqlite3.connect(":memory:") as fresh:
        fresh.executescript(PROCESSED_SCHEMA)
        strange = set(tables) - set(fresh.execute(SELECT_OWN_TABLES).fetchall())
    fresh.close()
    return (
        f"holds {len(strange)} tables, indexes or triggers of another hand upon its keys: drop them"
        if strange
        else ""
    )


def _is_of_the_file(exc: Exception) -> bool:
    """Whether any write would fail: the disk is full, the file locked, missing or broken."""
    return (
        isinstance(exc, sqlite3.Error) and getattr(exc, "sqlite_errorcode", 0) & 0xFF in OF_THE_FILE
    )
