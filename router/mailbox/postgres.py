"""PostgreSQL: a pool, transactions, and translated errors. The only file of this package that
imports psycopg.

    async with database.transaction() as session:
        events = await session.fetch(SQL, (limit,), make=event_of)      # `make` turns each row into a value
        marked = await session.execute(SQL, (ids,))                     # the number of rows that it changed

A session runs only SQL of this package, with parameters always apart from the text. Errors are
DatabaseUnavailable or DatabaseRefused; neither holds a connection string or a parameter.

A statement sets a new connection up, not startup options: PgBouncer (pool_mode = session) refuses
those. The service's own code gets connections of a separate pool (`build_handler_pool`), where the
planner keeps the server's settings.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from typing import Any, Final, LiteralString, TypeVar

import psycopg
from msgspec import Struct
from msgspec.structs import replace
from psycopg import errors, rows, sql
from psycopg.conninfo import conninfo_to_dict
from psycopg_pool import AsyncConnectionPool, PoolTimeout

from router.core.cancellation import preserve_cancellation
from router.core.errors import Misconfigured
from router.core.masking import shorten
from router.mailbox.errors import DatabaseRefused, DatabaseUnavailable
from router.process.observability import events, logs

log = logs.logger(__name__)

T = TypeVar("T")
Parameters = Sequence[object]
Driver = psycopg.AsyncConnection[tuple[object, ...]]  # what a service's own code is handed

# What the next try may find mended: connections, resources, an operator's word, serialization, a
# transaction that idled.
_LATER = ("08", "40", "53", "55", "57", "58", "25P03", "25P04")
# Errors whose text names tables and schemas, never a value; and what to do.
_NAMING_OBJECTS = {
    "42501": "grant it to the user of mailbox.dsn",
    "42P01": "is mailbox.db_schema right, and may the user of mailbox.dsn use it?",
    "3F000": "is mailbox.db_schema right?",
}
HANDLER_CONNECTIONS = 2  # transactions at once: one for first attempts, one for retries
MAX_FAILURE = 512  # characters of what the server said
_INSISTING = ("require", "verify-ca", "verify-full")  # values of sslmode
_THIS_HOST = ("", "localhost", "127.0.0.1", "::1")
_KNOWS_REQUIRE_AUTH = 160_000  # libpq's version
# A machine that vanishes closes nothing, and the system would wait for it a quarter of an hour, or
# for two hours. The first holds while something that was sent is not acked (ms), the others while
# an answer is waited for (s). A Unix socket ignores them.
_LIVENESS = {
    "tcp_user_timeout": 10_000,
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
}
# Everything here is looked up by an index, and no plan may hang on when the table was last
# analysed: one that was filled a moment ago has no statistics, and without them the planner may
# read all of it for five hundred rows.
_BY_INDEX = {"enable_seqscan": "off", "enable_bitmapscan": "off", "jit": "off"}
SET_UP: Final = (
    "SELECT set_config(name, value, false) FROM unnest(%s::text[], %s::text[]) AS given (name, "
    "value)"
)


class DatabaseConfig(Struct, frozen=True):
    """Where a context's tables are. `dsn` is a secret. Times are seconds."""

    dsn: str
    schema: str = "public"
    connections: int = 4
    timeout: float = 5.0  # for a connection from the pool
    # then the server ends it: a relay that hangs must not hold its rows
    idle_in_transaction: float = 10.0
    application: str = "router"
    # for SQL of this room alone; a service's own queries are planned as its author expects
    plans_by_index: bool = True


_ENDED = {
    "25P02": "a statement failed, and its error was caught: all of the transaction is rolled back",
    "3B001": "the handler ended the transaction",
}


class Session:
    """One transaction. Do not keep it longer than its block."""

    def __init__(self, connection: psycopg.AsyncConnection[tuple[object, ...]]) -> None:
        self._connection = connection

    async def fetch(
        self, query: LiteralString, parameters: Parameters = (), *, make: Callable[..., T]
    ) -> list[T]:
        """Return every row as `make(*columns)`."""
        with _translate_errors():
            async with self._connection.cursor(
                binary=True, row_factory=rows.args_row(make)
            ) as cursor:
                await cursor.execute(query, parameters)
                return await cursor.fetchall()

    async def fetch_one(
        self, query: LiteralString, parameters: Parameters = (), *, make: Callable[..., T]
    ) -> T | None:
        """Return the first row, or None."""
        fetched = await self.fetch(query, parameters, make=make)
        return fetched[0] if fetched else None

    async def execute(self, query: LiteralString, parameters: Parameters = ()) -> int:
        """Return the number of rows that the statement changed."""
        with _translate_errors():
            return (await self._connection.execute(query, parameters)).rowcount

    async def script(self, text: LiteralString) -> None:
        """Run the statements of a migration, which comes with this package."""
        with _translate_errors():
            await self._connection.execute(text)

    @asynccontextmanager
    async def savepoint(self) -> AsyncIterator[None]:
        """Undo what fails inside the block; the transaction goes on."""
        with _translate_errors():
            async with self._connection.transaction():
                yield

    @asynccontextmanager
    async def stay(self) -> AsyncIterator[None]:
        """Raises DatabaseRefused where a COMMIT after the block would commit nothing of it, or not
        all.

        A handler may catch the error of a statement: the server answers the COMMIT with a rollback
        then, and psycopg with no error. Or it may end the transaction: psycopg begins another one,
        and a pipeline goes on without one (`require_block`). Neither has our savepoint
        (postgresql.org/docs/current/sql-release-savepoint.html).
        """
        await self.execute("SAVEPOINT router_stay")
        yield
        try:
            await self.execute("RELEASE SAVEPOINT router_stay")
        except DatabaseRefused as exc:
            raise DatabaseRefused(exc.sqlstate, _ENDED.get(exc.sqlstate, str(exc))) from None

    async def require_block(self) -> None:
        """Raises DatabaseRefused, now or at the end of a pipeline, where no transaction is open:
        what follows would stand by itself.
        """
        # the transaction has this lock already
        await self.execute("LOCK TABLE inbox_messages IN ACCESS SHARE MODE")

    @property
    def driver(self) -> psycopg.AsyncConnection[tuple[object, ...]]:
        """psycopg's own connection: for a service's handler that writes in the same transaction."""
        return self._connection


class Database:
    """A context's database. It connects at `open`, not before; each transaction tries an
    unavailable database again.
    """

    def __init__(self, config: DatabaseConfig) -> None:
        self._failures: list[str] = []  # the last one's words, until a connection is made
        self._pool: AsyncConnectionPool[psycopg.AsyncConnection[tuple[object, ...]]] = (
            AsyncConnectionPool(
                config.dsn,
                connection_class=_build_connection_class(self._failures),
                kwargs={**_options(config), **_refuse_clear_password(config.dsn)},
                min_size=0,
                max_size=config.connections,
                timeout=config.timeout,
                configure=self._set_up,
                open=False,
                reconnect_timeout=config.timeout,
            )
        )
        self._config = config

    async def open(self) -> None:
        """Raises Misconfigured for a connection string that cannot be read; an unavailable database
        is no error here.
        """
        _check(self._config)
        # logged once, not again by the pool for handlers
        if self._config.plans_by_index and _refuse_clear_password(self._config.dsn):
            log.warning(
                events.DATABASE_UNPROTECTED, remedy="sslmode=verify-full in the setting mailbox.dsn"
            )
        await self._pool.open()

    async def close(self) -> None:
        await self._pool.close()

    def build_handler_pool(self, *, idle_in_transaction: float) -> Database:
        """Return a separate pool, not yet opened, whose connections the service's own code uses."""
        return Database(
            replace(
                self._config,
                idle_in_transaction=idle_in_transaction,
                connections=HANDLER_CONNECTIONS,
                plans_by_index=False,
            )
        )

    async def __aenter__(self) -> Database:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[Session]:
        """Commit at the end of the block, roll back if it raises. Raises DatabaseUnavailable,
        DatabaseRefused.
        """
        with _translate_errors(self._failures):
            async with self._checkout() as connection, connection.transaction():
                yield Session(connection)

    async def wait_for_notification(self, channel: str, *, within: float) -> bool:
        """Return whether a NOTIFY arrived on the channel within so many seconds."""
        with _translate_errors(self._failures):
            async with self._checkout() as connection:
                await connection.set_autocommit(True)
                try:
                    await connection.execute(sql.SQL("LISTEN {}").format(sql.Identifier(channel)))
                    async for _ in connection.notifies(timeout=within, stop_after=1):
                        return True
                    return False
                finally:
                    await connection.execute("UNLISTEN *")
                    await connection.set_autocommit(False)

    async def _set_up(self, connection: Driver) -> None:
        """Set up a new connection of the pool before its first statement."""
        settings = _settings_of(self._config)
        await connection.execute(SET_UP, (list(settings), list(settings.values())))
        await connection.commit()

    @asynccontextmanager
    async def _checkout(self) -> AsyncIterator[psycopg.AsyncConnection[tuple[object, ...]]]:
        async with AsyncExitStack() as given_back:
            yield await preserve_cancellation(
                given_back.enter_async_context(self._pool.connection())
            )


def _options(config: DatabaseConfig) -> dict[str, object]:
    """Options of libpq. The connection string may name other times after which a silent server is
    given up.
    """
    given = _parse_dsn(config.dsn)
    liveness = {name: value for name, value in _LIVENESS.items() if name not in given}
    return {
        "application_name": config.application,
        "connect_timeout": max(2, round(config.timeout)),
        **liveness,
    }


def _settings_of(config: DatabaseConfig) -> dict[str, str]:
    """The server settings that a session of this database changes.

    `idle_session_timeout` is for forgotten sessions: a connection that it ends in the pool fails
    the next transaction.
    """
    idle_ms = str(int(config.idle_in_transaction * 1000))
    settings = {
        "search_path": config.schema,
        "idle_in_transaction_session_timeout": idle_ms,
        "idle_session_timeout": "0",
        "timezone": "UTC",
    }
    return {**settings, **_BY_INDEX} if config.plans_by_index else settings


def _refuse_clear_password(dsn: str) -> dict[str, object]:
    """Options by which libpq sends no password in the clear.

    libpq accepts a server without TLS, and sends the password in the clear if that server asks for
    it. For a server on another host this forbids it, unless the connection string (or libpq's own
    variables) insists on TLS or says what is allowed. A challenge (SCRAM) may still be answered: it
    does not hold the password.
    """
    given = _parse_dsn(dsn)
    parameters = {
        parameter.keyword.decode(): parameter.val.decode()
        for parameter in psycopg.pq.Conninfo.get_defaults()
        if parameter.val
    }
    parameters |= {name: str(value) for name, value in given.items() if value is not None}
    is_decided = (
        parameters.get("sslmode") in _INSISTING
        or "require_auth" in parameters
        or psycopg.pq.version() < _KNOWS_REQUIRE_AUTH
    )
    is_here = all(
        host.startswith(("/", "@")) or host in _THIS_HOST
        for host in parameters.get("host", "").split(",")
    )
    return {} if is_decided or is_here else {"require_auth": "!password"}


def _parse_dsn(dsn: str) -> dict[str, object]:
    """The options that a connection string names; none if it cannot be read, which `open` reports."""
    try:
        return dict(conninfo_to_dict(dsn))
    except psycopg.ProgrammingError:
        return {}


def _check(config: DatabaseConfig) -> None:
    try:
        conninfo_to_dict(config.dsn)
    except psycopg.ProgrammingError:
        raise Misconfigured(
            "mailbox.dsn", "should be like postgresql://user@host:5432/database"
        ) from None


def _build_connection_class(
    failures: list[str],
) -> type[psycopg.AsyncConnection[tuple[object, ...]]]:
    """Build a connection class that keeps the text of a failed connect: the pool retries silently,
    and then reports only a timeout.
    """

    class RememberingConnection(psycopg.AsyncConnection[tuple[object, ...]]):
        @classmethod
        async def connect(cls, *args: Any, **kwargs: Any) -> Any:
            try:
                connection = await super().connect(*args, **kwargs)
            except psycopg.OperationalError as exc:
                failures[:] = [shorten(" ".join(str(exc).split()), MAX_FAILURE)]
                raise
            failures.clear()
            return connection

    return RememberingConnection


@contextmanager
def _translate_errors(failures: Sequence[str] = ()) -> Iterator[None]:
    try:
        yield
    except PoolTimeout:
        # libpq gives a failed login no code, so its text is reported, and nothing depends on it. It
        # holds no password.
        cause = (
            f": {failures[-1]}; host, user, password and database are those of mailbox.dsn"
            if failures
            else ""
        )
        raise DatabaseUnavailable(f"no connection to PostgreSQL in time{cause}") from None
    except errors.Error as exc:
        raise _translate(exc) from None


def _translate(exc: psycopg.Error) -> DatabaseUnavailable | DatabaseRefused:
    state = exc.sqlstate or ""
    if state.startswith(_LATER) or (
        not state and isinstance(exc, psycopg.OperationalError | psycopg.InterfaceError)
    ):
        return DatabaseUnavailable(f"PostgreSQL is away ({type(exc).__name__})")
    if state in _NAMING_OBJECTS:
        cause = f"{exc.diag.message_primary} ({_NAMING_OBJECTS[state]})"
        return DatabaseRefused(state, shorten(cause, MAX_FAILURE), exc.diag.constraint_name)
    # its own text may hold a value
    return DatabaseRefused(state, type(exc).__name__, exc.diag.constraint_name)
