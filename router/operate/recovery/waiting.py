"""Waiting for an answer that comes only when the server has done its work: it has checked a stream's messages, or made the stream.

That takes as long as the stream is large, so a time that is good for other requests says nothing. The answer is lost when the connection
is: its pings end it when the server is silent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from router.core.errors import BrokerUnavailable
from router.delivery.wire.connection import Connection

WORK_S = 3600.0  # 700 GB at 200 MB a second; what takes longer was lost: the stream's leader died, and our connection is to another server
LOOK_S = 1.0

Answer = TypeVar("Answer")


async def wait_for_work(connection: Connection, what: str, request: Coroutine[Any, Any, Answer]) -> Answer:
    """The answer, or what the request raises. Raises BrokerUnavailable when the connection is lost. `what`: the request, for the error."""
    lives, asking = connection.reconnect_count, asyncio.create_task(request)
    try:
        while not (await asyncio.wait((asking,), timeout=LOOK_S))[0]:
            if connection.reconnect_count != lives or not connection.is_connected:
                raise BrokerUnavailable(f"{what}: the connection was lost before the answer")
        return asking.result()
    finally:
        asking.cancel()
