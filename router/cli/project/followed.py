"""Waits until the router of a project has followed what was just registered: it reads its bucket a moment after the write."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress

import orjson

from router.core.errors import RouterError
from router.delivery.wire.connection import Connection
from router.extensions.commands.health import HEALTH_SUBJECT
from router.operate.admin.broadcast import request_one
from router.sdk.connect import open_connection

FOLLOWED_WITHIN_S = 3.0
PAUSE_S = 0.05


async def wait_until_known(nats_url: str, extension_ids: Collection[str]) -> None:
    """Return when the router knows these extensions; also when it does not tell, or not within FOLLOWED_WITHIN_S."""
    with suppress(RouterError, TimeoutError):
        connection = await open_connection(nats_url, "router-dev")
        try:
            async with asyncio.timeout(FOLLOWED_WITHIN_S):
                while not await _has_all(connection, extension_ids):  # noqa: ASYNC110 - the router only answers
                    await asyncio.sleep(PAUSE_S)
        finally:
            await connection.close()


async def _has_all(connection: Connection, extension_ids: Collection[str]) -> bool:
    answer = orjson.loads((await request_one(connection, HEALTH_SUBJECT, b"{}", {}, is_router=True)).data)
    return "error" in answer or set(extension_ids) <= set(answer.get("health", ()))
