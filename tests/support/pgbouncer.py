"""A real PgBouncer in front of a database, in the pool mode that relay and inbox need (Debian:
apt-get install pgbouncer).
"""

import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg

from tests.support.ports import free_port
from tests.support.postgres import as_user
from tests.support.waiting import until

PROGRAM = shutil.which(
    "pgbouncer", path="/usr/sbin:/usr/local/sbin:/usr/bin:/usr/local/bin:/opt/homebrew/bin"
)
SETTINGS = """[databases]
* = host={host} port={database_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = any
pool_mode = session
max_client_conn = 100
default_pool_size = 40
"""


@asynccontextmanager
async def a_pgbouncer(dsn: str) -> AsyncIterator[str]:
    """The connection string of the same database behind it."""
    upstream = urlsplit(dsn)
    port = free_port()
    pooled = urlunsplit(upstream._replace(netloc=f"{upstream.username}@127.0.0.1:{port}"))
    with tempfile.TemporaryDirectory(prefix="router-test-pgbouncer-") as home:
        # `auth_type = any` logs each client in as the user that the entry names: the one of the
        # database's own connection string.
        entry = SETTINGS.format(
            host=upstream.hostname,
            database_port=f"{upstream.port} user={upstream.username}",
            port=port,
        )
        process = _start(home, entry)
        try:
            await until(lambda: _answers(pooled), what="PgBouncer answers")
            yield pooled
        finally:
            process.terminate()
            process.wait()


def _start(home: str, settings: str) -> "subprocess.Popen[bytes]":
    Path(home).chmod(0o755)  # PgBouncer runs as another user where root runs the tests
    file = Path(home, "pgbouncer.ini")
    file.write_text(settings)
    assert PROGRAM is not None
    return subprocess.Popen([PROGRAM, "-q", str(file)], **as_user())  # type: ignore[call-overload,no-any-return]


async def _answers(dsn: str) -> bool:
    try:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await connection.execute("SELECT 1")
    except psycopg.OperationalError:
        return False
    return True
