"""Where the demo plays: a broker in a temporary directory, a router in this process, a client. Nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from router.app import Ready, RouterService
from router.cli.demo.story import Asked, Counted, Step
from router.cli.serve import samples
from router.cli.session import jetstream_of
from router.config import Settings, load
from router.deadletters import Letter, newest_first
from router.embedded import EmbeddedServer
from router.errors import Unanswered
from router.sdk import Client

READY_WITHIN_S = 10.0
_COUNTER = re.compile(r"(router_\w+_total(?:\{[^}]*\})?) ([0-9.e+]+)")


class Stage:
    """What the story acts upon."""

    def __init__(self, settings: Settings, client: Client, ready: Ready) -> None:
        self._settings = settings
        self._client = client
        self.ready = ready

    async def asked(self, step: Step) -> Asked:
        """Ask, and time it."""
        begun = time.perf_counter()
        answer = await self._client.decide_raw(step.body)
        return Asked(step, answer, (time.perf_counter() - begun) * 1000)

    async def newest_letter(self) -> Letter | None:
        async with jetstream_of(self._settings) as jetstream:
            async for letter in newest_first(jetstream, self._settings.streams.dlq.name, limit=1):
                return letter
        return None

    async def counted(self) -> Counted:
        """Every counter that moved, as a scrape shows it."""
        text = await asyncio.to_thread(_fetched, f"{self.ready.http}/metrics")
        found = (match for line in text.splitlines() if (match := _COUNTER.fullmatch(line)))
        return {match[1]: float(match[2]) for match in found if float(match[2])}


@contextlib.asynccontextmanager
async def on_stage() -> AsyncIterator[Stage]:
    """Everything up; afterwards everything down, in reverse."""
    with tempfile.TemporaryDirectory(prefix="router-demo-") as directory:
        server = EmbeddedServer(Path(directory))
        url = await server.start()
        try:
            settings = load(None, {"nats.url": url, "http.port": 0, "policies.dir": samples()}, {}).settings
            async with _router(settings) as ready, Client(settings.nats) as client:
                yield Stage(settings, client, ready)
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def _router(settings: Settings) -> AsyncIterator[Ready]:
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(RouterService(settings).run(ready.set_result))
    try:
        both: set[asyncio.Future[Any]] = {ready, task}
        await asyncio.wait(both, timeout=READY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        if not ready.done():
            raise Unanswered(f"the router was not ready within {READY_WITHIN_S:g} s")
        yield ready.result()
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


def _fetched(url: str) -> str:
    with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own address
        return str(answer.read().decode())
