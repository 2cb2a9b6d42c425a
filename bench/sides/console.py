"""A console as `router console` runs it, and browsers' connections that follow its page Now, until it is ended."""

from __future__ import annotations

import asyncio

import httpx2

from bench.broker import settings
from bench.child import Ready
from bench.question import Measured
from router.console import ConsoleServer
from router.operations.observability import configure


async def show(ready: Ready, *, url: str, metrics: str, followers: int) -> Measured:
    """`ready` once each follower has had an event. It does not end by itself."""
    configure("warning")
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = ConsoleServer(settings(url, {"console.metrics": metrics, "console.port": 0}))
    async with asyncio.TaskGroup() as tasks, httpx2.AsyncClient(timeout=None) as client:
        tasks.create_task(server.run(port.set_result))
        live = f"http://127.0.0.1:{await port}/live"
        heard = [asyncio.Event() for _ in range(followers)]
        for one in heard:
            tasks.create_task(_follow(client, live, one))
        for one in heard:
            await one.wait()
        ready()
    return {}


async def _follow(client: httpx2.AsyncClient, live: str, heard: asyncio.Event) -> None:
    async with client.stream("GET", live) as events:
        async for line in events.aiter_lines():
            if line.startswith("event:"):
                heard.set()
