"""What the rig sees of the server while it plays: usage events as they come, and whether the
records of assignments are gone.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Collection
from typing import TypeVar

from nats.aio.client import Client
from nats.errors import Error
from nats.js.errors import APIError

USAGE, RECORDS = "ROUTER_USAGE", "KV_ROUTER_ASSIGNMENTS_KNOWN"
PAGE = 200
LOOK_S = 0.5
T = TypeVar("T")
PATIENCE_S = 240.0  # routers and server are killed meanwhile


class UsageReader:
    """Reads the usage stream by sequence, each event once, in its order; a server that is killed
    meanwhile is asked again.
    """

    def __init__(self, witness: Client) -> None:
        self._witness = witness
        self._next = 1
        self.stored: list[bytes] = []

    async def read(self) -> list[bytes]:
        """All that is stored by now."""
        jsm = self._witness.jsm(timeout=10)
        last = (await _again(lambda: jsm.stream_info(USAGE))).state.last_seq
        while self._next <= last:
            numbers = range(self._next, min(last, self._next + PAGE - 1) + 1)
            some = await _again(
                lambda numbers=numbers: asyncio.gather(
                    *(jsm.get_msg(USAGE, number) for number in numbers)
                )
            )
            self.stored += [message.data or b"" for message in some]
            self._next = numbers[-1] + 1
        return self.stored

    async def until_metered(self, tenant: str, references: Collection[str]) -> bool:
        """Whether each of them has an event, within the patience. A reference: an assignment's id,
        or a request's.
        """
        due, deadline, at = {(tenant, one) for one in references}, time.monotonic() + PATIENCE_S, 0
        while time.monotonic() < deadline:
            stored = await self.read()
            for data in stored[at:]:
                body = json.loads(data)
                due -= {
                    (body["tenant_id"], body.get("assignment_id")),
                    (body["tenant_id"], body.get("request_id")),
                }
            at = len(stored)
            if not due:
                return True
            await asyncio.sleep(LOOK_S)
        return False


class Watch:
    """What a row's clients may wait for."""

    def __init__(self, witness: Client) -> None:
        self._witness = witness

    async def until_metered(self, tenant: str, references: Collection[str]) -> bool:
        return await UsageReader(self._witness).until_metered(tenant, references)

    async def until_forgotten(self) -> bool:
        """Whether no assignment's record is left."""
        jsm, deadline = self._witness.jsm(timeout=10), time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline:
            if not (await _again(lambda: jsm.stream_info(RECORDS))).state.messages:
                return True
            await asyncio.sleep(LOOK_S)
        return False


async def _again(ask: Callable[[], Awaitable[T]]) -> T:
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            return await ask()
        except (Error, APIError, TimeoutError):
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(LOOK_S)
