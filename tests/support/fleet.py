"""A fleet of router processes under one parent, and live traffic to it."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import AsyncIterator

from nats.aio.client import Client

from router.config import Settings
from tests.support.service import RouterProcess, names_for
from tests.support.stories import Inboxes, read_page

RATE_S = 0.002  # between two requests


class FleetProcess(RouterProcess):
    """A parent and its processes."""

    @classmethod
    def on(cls, url: str, prefix: str, processes: int = 2, **settings: object) -> "FleetProcess":
        return cls({**names_for(url, prefix), "processes": processes, **settings})

    async def pids(self) -> dict[str, int]:
        """The process of each slot, as /readyz shows it; a slot whose process is not ready is left
        out.
        """
        _, text = await read_page(self.ready["http"], "/readyz")
        checks = json.loads(text)["checks"]
        return {
            name: int(check["detail"].split()[-1]) for name, check in checks.items() if check["ok"]
        }

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)


@contextlib.asynccontextmanager
async def live_traffic(
    nc: Client, settings: Settings, inboxes: Inboxes
) -> AsyncIterator[list[str]]:
    """A request every few milliseconds, as any NATS client asks, as long as the block lasts; the
    list grows by their inboxes.
    """
    asked: list[str] = []

    async def ask() -> None:
        while True:
            name = len(asked)
            await inboxes.publish(nc, settings, name)
            asked.append(inboxes.of(name))
            await asyncio.sleep(RATE_S)

    asking = asyncio.create_task(ask())
    try:
        yield asked
    finally:
        asking.cancel()
        await asyncio.wait({asking})
        await nc.flush()


def is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
