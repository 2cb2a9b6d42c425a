"""A console in a process of its own, and a reader of its page Now who stays on it."""

from __future__ import annotations

import asyncio
import urllib.request

from bench.broker import settings
from bench.child import Ready
from bench.question import Measured
from router.console import ConsoleServer


async def follow(ready: Ready, *, url: str, address: str) -> Measured:
    """Serve, and read the events of the page until this process is ended; `ready` after the first
    event. `address`: of the router.
    """
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = ConsoleServer(settings(url, {"console.port": 0, "console.metrics": address}))
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(server.run(port.set_result))
        tasks.create_task(asyncio.to_thread(_read, await port, ready))
    return {}


def _read(port: int, ready: Ready) -> None:
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/live", timeout=60) as events:
        for line in events:
            if line.startswith(b"event: now"):
                ready()
