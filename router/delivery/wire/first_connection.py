"""Open a `Connection`: the first attempt ends in time, or with an error that says what an operator
can do.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any

import nats.errors

from router.core.errors import BrokerUnavailable
from router.core.masking import hide_login
from router.delivery.wire import denials, tls
from router.delivery.wire.connection import Connection
from router.delivery.wire.reconnecting import PING_EVERY_S

CONNECT_TIMEOUT_S = 2.0  # nats-py's, where the options do not say
# of each server
ONE_TRY = {"allow_reconnect": False, "max_reconnect_attempts": 1, "reconnect_time_wait": 0.1}


async def connect(
    options: Mapping[str, Any],
    *,
    timeout_s: float = 5.0,
    on_lost: Callable[[], Awaitable[None]] | None = None,
    on_back: Callable[[], Awaitable[None]] | None = None,
    read_options: Callable[[], Mapping[str, Any]] | None = None,
) -> Connection:
    """A Connection that never gives up reconnecting; `options` are nats-py's.

    `read_options` reads them anew, with what files hold by then: for `can_open_another`. Raises
    BrokerUnavailable if the first connection takes longer than `timeout_s`, so that a wrong address
    is reported. Each further server adds its `connect_timeout`: servers that vanished may be tried
    before one that answers.
    """
    timeout_s += max(0, len(_servers(options)) - 1) * options.get(
        "connect_timeout", CONNECT_TIMEOUT_S
    )
    _warn_of_login(options)
    connection = Connection()
    refusals = denials.LoginRefusals(
        _format_servers(options), len(_servers(options)), denials.log_denial
    )
    last: list[Exception] = []

    # it must not raise, except LoginRefused before the first connection
    async def remember(exc: Exception) -> None:
        # A server may reset a connection before its words are read: an earlier try has them.
        is_wordless = isinstance(exc, ConnectionResetError | BrokenPipeError)
        if not (is_wordless and last and denials.find_limit(str(last[0]))):
            last[:] = [exc]
        if isinstance(exc, denials.LoginNotTaken):
            refusals.on_refusal()

    async def on_reconnected() -> None:
        refusals.on_connected()
        if on_back is not None:
            await on_back()

    settings = {
        "max_reconnect_attempts": -1,
        "reconnect_time_wait": 0.25,
        "ping_interval": PING_EVERY_S,
        **options,
    }
    try:
        async with asyncio.timeout(timeout_s):
            await connection.connect(
                **settings,
                error_cb=remember,
                disconnected_cb=on_lost,
                reconnected_cb=on_reconnected,
            )
    except (OSError, nats.errors.Error) as exc:  # TimeoutError is an OSError
        cause = last[0] if last else exc
        if isinstance(cause, ConnectionError) and connection.wants_login:
            # the server closed the connection before its refusal was read
            raise refusals.error from exc
        raise _build_failure(cause, _format_servers(options)) from exc
    refusals.on_connected()
    connection.can_open_another = partial(_can_open, read_options or (lambda: options), timeout_s)
    return connection


def _build_failure(cause: Exception, servers: str) -> BrokerUnavailable:
    text = f"{servers}: {cause or type(cause).__name__}"
    if (limit := denials.find_limit(str(cause))) is not None:
        return BrokerUnavailable(
            f"the server at {servers} takes no more: {limit}: {denials.LIMIT_REMEDY}"
        )
    # a server answered, but the TLS handshake failed
    if isinstance(cause, ssl.SSLError | tls.TlsNotOffered):
        return BrokerUnavailable(f"TLS failed with the server at {text}")
    return BrokerUnavailable(
        f"no NATS server answers at {text}: start it, or name another in nats.url (--nats-url)"
    )


async def _can_open(read_options: Callable[[], Mapping[str, Any]], timeout_s: float) -> bool:
    """Whether a server accepts a login. The connection that shows it is closed at once."""
    other = Connection()
    try:
        async with asyncio.timeout(timeout_s):
            await other.connect(**{**read_options(), **ONE_TRY}, error_cb=_ignore_error)
        return True
    except Exception:  # of any kind: an address, a login, a file that cannot be read now
        return False
    finally:
        with contextlib.suppress(Exception):
            await other.close()


async def _ignore_error(_: Exception) -> None:
    """The connection itself reports what fails."""


def _warn_of_login(options: Mapping[str, Any]) -> None:
    """Log a warning if a login would be sent without TLS."""
    if addresses := tls.find_unprotected(_servers(options), options):
        from router.process.observability import events, logs  # rare, as in `denials.log_denial`

        servers = ", ".join(map(hide_login, addresses))
        remedy = "an address with tls://, or the setting nats.tls_ca"
        logs.logger(__name__).warning(events.LOGIN_UNPROTECTED, servers=servers, remedy=remedy)


def _servers(options: Mapping[str, Any]) -> list[str]:
    servers = options.get("servers", ())
    return [servers] if isinstance(servers, str) else list(servers)


def _format_servers(options: Mapping[str, Any]) -> str:
    """The servers' addresses, without logins."""
    return ", ".join(map(hide_login, _servers(options)))
