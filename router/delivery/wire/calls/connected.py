"""Wait for a lost connection to come back, before a request is sent: what is written meanwhile
would be sent after its caller gave up.
"""

from __future__ import annotations

import asyncio

from router.core.errors import BrokerUnavailable
from router.delivery.wire.connection import Connection

CHECK_S = 0.05  # how soon a reconnect is noticed


async def wait_until_connected(connection: Connection, timeout_s: float) -> float:
    """Return the seconds that are left, at once where it is connected.

    Raises BrokerUnavailable after `timeout_s` seconds, or when the connection is closed for good.
    """
    loop = asyncio.get_running_loop()
    left_s, until = timeout_s, loop.time() + timeout_s
    while not connection.is_connected:
        await asyncio.sleep(min(CHECK_S, max(left_s, 0)))
        left_s = until - loop.time()
        if left_s <= 0 or connection.is_closed:
            raise BrokerUnavailable(
                f"not connected to a server for {timeout_s:g} s: nothing was sent"
            )
    return left_s
