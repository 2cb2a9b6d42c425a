"""Settings become a connection: every way to log in that nats-py knows, and TLS
(docs/reference/contracts.md#connection).
"""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

from router.config import NatsConfig
from router.core.errors import Misconfigured
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect


async def connect_by(
    config: NatsConfig,
    *,
    on_lost: Callable[[], Awaitable[None]] | None = None,
    on_back: Callable[[], Awaitable[None]] | None = None,
    again_s: float | None = None,
) -> Connection:
    """Connect as configured. Raises BrokerUnavailable when no server answers, Misconfigured for
    unreadable files.

    `again_s`: seconds between two attempts to reconnect, instead of the default.
    """
    options = options_of(config) | ({"reconnect_time_wait": again_s} if again_s is not None else {})
    timeout_s = 2 * config.connect_timeout_ms / 1000
    return await connect(
        options,
        timeout_s=timeout_s,
        on_lost=on_lost,
        on_back=on_back,
        read_options=partial(options_of, config),
    )


def options_of(config: NatsConfig) -> dict[str, Any]:
    options: dict[str, Any] = {
        "servers": list(config.url),
        "name": config.name,
        "inbox_prefix": config.inbox_prefix,
        "connect_timeout": config.connect_timeout_ms / 1000,
    }
    if config.creds_file is not None:
        options["user_credentials"] = str(config.creds_file)
    if config.nkey_file is not None:
        options["nkeys_seed"] = str(config.nkey_file)
    if config.user is not None:
        options["user"] = config.user
    if config.password is not None:
        options["password"] = config.password.get_secret_value()
    if config.token is not None:
        options["token"] = config.token.get_secret_value()
    if config.tls_ca is not None or config.tls_cert is not None:
        options["tls"] = _tls(config)
    if config.tls_hostname is not None:
        options["tls_hostname"] = config.tls_hostname
    return options


def _tls(config: NatsConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=config.tls_ca)
        if config.tls_cert is not None:
            context.load_cert_chain(config.tls_cert, config.tls_key)
    except (OSError, ssl.SSLError) as exc:
        raise Misconfigured(
            "nats.tls_ca, nats.tls_cert, nats.tls_key", f"cannot be read: {exc}"
        ) from exc
    return context
