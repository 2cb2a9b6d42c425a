"""The NATS connection of the SDK's classes: by a URL, or by the settings that say how to log in."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect
from router.shell.host import HeldConnection, Told

if TYPE_CHECKING:
    from router.config import NatsConfig

DEFAULT_URL = "nats://localhost:4222"


async def open_connection(
    nats: str | NatsConfig, name: str, *, on_lost: Told | None = None, on_back: Told | None = None
) -> Connection:
    """Open a connection; with URLs alone, comma-separated, it is named `name`.

    Raises BrokerUnavailable when no server answers, within 2 seconds for each URL.
    """
    if isinstance(nats, str):
        return await connect(
            {"servers": nats.split(","), "name": name, "connect_timeout": 2},
            timeout_s=2.0,
            on_lost=on_lost,
            on_back=on_back,
        )
    # logging in by settings is rare here, and costs an import of every room
    from router.config.connect import connect_by

    return await connect_by(nats, on_lost=on_lost, on_back=on_back)


def build_held_connection(
    nats: str | NatsConfig, name: str, *, is_logged: bool = True
) -> HeldConnection:
    """The connection of a worker, an agent or extensions, from its opening to its close."""
    connect = partial(open_connection, nats, f"router-{name}")
    return HeldConnection(connect, name, flushes=True, is_logged=is_logged)


def build_jetstream(nats: str | NatsConfig, connection: Connection) -> JetStream:
    """The JetStream of that connection; settings may name its domain."""
    return JetStream(connection, None if isinstance(nats, str) else nats.js_domain)
