"""Open the NATS connection of the SDK's classes: by a URL, or by the settings that say how to log
in.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from router.delivery.wire.connection import Connection
from router.delivery.wire.first_connection import connect
from router.process.observability.broker_log import BrokerLog

if TYPE_CHECKING:
    from router.config import NatsConfig

DEFAULT_URL = "nats://localhost:4222"


async def open_connection(
    nats: str | NatsConfig, name: str, broker: BrokerLog | None = None
) -> Connection:
    """Open a connection; with URLs alone, comma-separated, it is named `name`.

    Raises BrokerUnavailable when no server answers, within 2 seconds for each URL.
    """
    on_lost, on_back = (
        (broker.on_disconnected, broker.on_reconnected) if broker is not None else (None, None)
    )
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


async def close_connection(connection: Connection) -> None:
    """Send what is written, and close. It never fails: the server may hang, or the connection be
    closed already.
    """
    try:
        with contextlib.suppress(Exception):
            await connection.flush()
    finally:
        with contextlib.suppress(Exception):
            await connection.close()
