"""One SQLite file, one process: opened, locked, migrated to this version; SQLite's errors
translated.

`journal_mode=WAL` and `synchronous=FULL`: a commit that returned is on the disk. With NORMAL a
power failure may undo a commit whose message was acknowledged
(docs/explanation/durability.md#agents). A lock on `{store}.lock` beside the file refuses a second
process: of two, each would find the other's redelivery new (docs/reference/requirements.md#mf-12).
Readers (`router agent events`) need no lock.

    StoreFailed     the disk is full, the file locked or damaged: the agent ends, and acknowledges
                    nothing that is not stored
    Misconfigured   in use by another process, another program's file, made by a newer version, or
                    with a schema that is not ours
"""

from __future__ import annotations

import fcntl
import os
import sqlite3
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from router.agents import schema
from router.agents.schema import differences
from router.core.errors import Misconfigured, RouterError

# -- The file.

BUSY_MS = 5_000  # another program (a backup) may hold the file this long
WAL_PAGES = 4_000  # 16 MiB between two checkpoints: each writes and syncs the file itself
CACHE_KIB = 32 * 1024

_MEANINGS = {
    sqlite3.SQLITE_FULL: "the disk is full: make room and start again",
    sqlite3.SQLITE_BUSY: "another program holds a lock on it",
    sqlite3.SQLITE_LOCKED: "another program holds a lock on it",
    sqlite3.SQLITE_CORRUPT: "it is damaged: `router agent verify` says where; restore a copy",
    sqlite3.SQLITE_NOTADB: "it is no SQLite file, or its first page is damaged: restore a copy",
    sqlite3.SQLITE_IOERR: "the disk reports an error",
    sqlite3.SQLITE_READONLY: "it may not be written",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened: is its directory there, and may it be written?",
}


class StoreFailed(RouterError):
    """The event store cannot do its work: the agent that uses it stops."""

    code = "store_failed"

    def __init__(self, path: Path, error: sqlite3.Error) -> None:
        number = getattr(error, "sqlite_errorcode", 0)
        super().__init__(f"store {path}: {_MEANINGS.get(number & 0xFF, 'SQLite error')} ({number})")
        self.number = number


class StoreFile:
    """An open store. One thread uses it at a time; `close` releases the lock."""

    def __init__(self, path: Path, *, is_durable: bool = True) -> None:
        """`is_durable` False: it can be made again, so nothing waits for the disk. Raises
        Misconfigured, or StoreFailed.
        """
        self.path = path
        self._lock = StoreLock(path)
        try:
            with self.translate_errors():
                path.touch(mode=0o600)
                self.connection = _connect(f"file:{path.resolve()}")
                _set_up(self.connection, is_durable)
                _bring_forward(self.connection, path)
        except OSError as exc:
            self._lock.release()
            raise Misconfigured("store", f"{path} cannot be opened: {exc.strerror}") from exc
        except BaseException:  # also Ctrl-C: the lock must not outlive a store that did not open
            self._lock.release()
            raise
        self.id = str(
            self.connection.execute("SELECT value FROM facts WHERE name = 'id'").fetchone()[0]
        )

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Commit all of it, or nothing; it is on the disk when this returns. Raises StoreFailed."""
        with self.translate_errors():
            self.connection.execute("BEGIN IMMEDIATE")
            try:
                yield self.connection
                self.connection.execute("COMMIT")
            except BaseException:  # also a cancellation: no transaction may stay open
                if self.connection.in_transaction:
                    self.connection.execute("ROLLBACK")
                raise

    @contextmanager
    def translate_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as exc:
            raise StoreFailed(self.path, exc) from exc

    def close(self) -> None:
        try:
            self.connection.close()
        finally:
            self._lock.release()


@contextmanager
def open_read_only(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a store for reading, also while an agent works on it. Raises Misconfigured, or
    StoreFailed.
    """
    if not path.is_file():
        raise Misconfigured("store", f"there is no {path}")
    connection = None
    try:
        connection = _connect(f"file:{path.resolve()}?mode=ro")
        _check(connection, path, _version(connection))
        yield connection
    except sqlite3.Error as exc:
        raise StoreFailed(path, exc) from exc
    finally:
        if connection is not None:
            connection.close()


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, check_same_thread=False, timeout=BUSY_MS / 1000
    )
    connection.execute(f"PRAGMA cache_size = -{CACHE_KIB}")
    # functions that a schema calls may have no effects
    connection.execute("PRAGMA trusted_schema = OFF")
    return connection


def _set_up(connection: sqlite3.Connection, is_durable: bool) -> None:
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(f"PRAGMA synchronous = {'FULL' if is_durable else 'OFF'}")
    connection.execute(f"PRAGMA wal_autocheckpoint = {WAL_PAGES}")


def _bring_forward(connection: sqlite3.Connection, path: Path) -> None:
    version = _version(connection)
    if version:
        _check(connection, path, version)
        _check_schema(connection, path, version)
    for number, script in enumerate(schema.MIGRATIONS[version:], version + 1):
        # One transaction for each version: a crash between leaves a store of one of them.
        connection.executescript(
            f"BEGIN IMMEDIATE; {script} PRAGMA user_version = {number}; COMMIT;"
        )
    if not version:
        connection.execute(f"PRAGMA application_id = {schema.APPLICATION_ID}")
    connection.execute("INSERT OR IGNORE INTO facts VALUES ('id', ?)", (uuid.uuid4().hex,))


def _check_schema(connection: sqlite3.Connection, path: Path, version: int) -> None:
    if differing := differences(connection, version):
        names = ", ".join(differing)
        raise Misconfigured(
            "store",
            (
                f"{path} differs from an agent's event store ({names}): restore a copy, or "
                "drop what is not its own"
            ),
        )


def _version(connection: sqlite3.Connection) -> int:
    """0: nothing was ever written to the file."""
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    (tables,) = connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    return -1 if tables and not version else int(version)


def _check(connection: sqlite3.Connection, path: Path, version: int) -> None:
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    if application not in (schema.APPLICATION_ID, 0) or version < 1:
        raise Misconfigured("store", f"{path} is not an agent's event store")
    if version > len(schema.MIGRATIONS):
        newest = len(schema.MIGRATIONS)
        raise Misconfigured(
            "store",
            f"{path} has schema version {version}, this program knows {newest}: use a newer one",
        )


# -- The lock. Its file also holds the owner's process id.


class StoreLock:
    """Held as long as its file is open: the end of the process, of any kind, releases it."""

    def __init__(self, path: Path) -> None:
        """Raises Misconfigured, with the id of the process that holds it."""
        place = Path(f"{path.resolve()}.lock")
        try:
            self._file = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise Misconfigured("store", f"{place} cannot be opened: {exc.strerror}") from exc
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            holder = os.read(self._file, 32).decode("ascii", "replace").strip()
            os.close(self._file)
            raise Misconfigured(
                "store", f"{path} is in use by process {holder or '?'}: one process per store"
            ) from exc
        os.ftruncate(self._file, 0)
        os.write(self._file, b"%d" % os.getpid())

    def release(self) -> None:
        os.close(self._file)
