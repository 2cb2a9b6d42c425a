"""Where the demo plays: a broker in a temporary directory, a router and a worker in this process, a client, and a witness.

Nothing is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.request import urlopen

from router.app import Ready, RouterService
from router.buckets.assignments import find_assignment
from router.cli.demo.circle import Subjects
from router.cli.demo.story import Asked, Counted, Step
from router.cli.demo.witness import SEEN_WITHIN_S, Witness, watching
from router.cli.serve import samples
from router.cli.session import jetstream_of
from router.cli.worker import places_of
from router.config import Settings, load
from router.deadletters import DeadLetter, DeadLetterFilter, ReplayOptions, ReplayReport, list_newest_first, read_by_sequence, replay, show
from router.delivery.api import JetStream
from router.embedded import EmbeddedServer
from router.errors import Unanswered
from router.sdk import Answer, Client, Worker
from router.sdk.echo import Echo

T = TypeVar("T")

READY_WITHIN_S = 10.0
_COUNTER = re.compile(r"(router_\w{1,100}_total(?:\{[^{}]*\})?) ([0-9.e+]+)")


class Stage:
    """What the story acts upon."""

    def __init__(self, settings: Settings, client: Client, jetstream: JetStream, witness: Witness, ready: Ready) -> None:
        self.settings = settings
        self.witness = witness
        self.ready = ready
        self._client = client
        self._jetstream = jetstream

    async def asked(self, step: Step) -> Asked:
        """Ask, and time it."""
        begun = time.perf_counter()
        answer = await self._client.decide_raw(step.body)
        return Asked(step, answer, (time.perf_counter() - begun) * 1000)

    async def answer_to(self, body: bytes) -> Answer:
        return await self._client.decide_raw(body)

    async def stored_ack(self, assignment_id: str) -> str | None:
        """What stands on an assignment, as `router assignments` shows it; it is written behind the ack's own way."""
        bucket = self.settings.buckets.assignments_known.name
        found = await _soon(lambda: find_assignment(self._jetstream, bucket, assignment_id), lambda one: one.ack is not None)
        return found.status if found is not None else None

    async def publish(self, subject: str, data: bytes) -> None:
        """Store a message, as any client would."""
        await self._jetstream.connection.jetstream().publish(subject, data)

    async def letter_of(self, subject: str) -> DeadLetter | None:
        """The newest letter of a subject, once there is one."""
        wanted = DeadLetterFilter(subject=subject)
        return await _soon(lambda: self._newest_letter(wanted), lambda _: True)

    async def _newest_letter(self, wanted: DeadLetterFilter) -> DeadLetter | None:
        async for letter in list_newest_first(self._jetstream, self.settings.streams.dlq.name, wanted, limit=1):
            return letter
        return None

    async def replayed(self, letter: DeadLetter, payload: bytes) -> ReplayReport:
        """The message of a letter sent again, with another payload."""
        stream = self.settings.streams.dlq.name
        how = ReplayOptions(subject_pattern=self.settings.dlq.subject_pattern, payload=payload)
        return await replay(self._jetstream, stream, read_by_sequence(self._jetstream, stream, [letter.sequence]), how)

    async def letter_at(self, sequence: int) -> DeadLetter | None:
        return await show(self._jetstream, self.settings.streams.dlq.name, sequence)

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
            settings = load(None, {"nats.url": url, "http.port": 0, "policies.dir": samples(), "acks.enabled": True}, {}).settings
            async with (
                _router(settings) as ready,
                _worker(settings),
                Client(settings.nats) as client,
                jetstream_of(settings) as jetstream,
                watching(jetstream.connection, Subjects(settings).all) as witness,
            ):
                yield Stage(settings, client, jetstream, witness, ready)
        finally:
            await server.stop()


@contextlib.asynccontextmanager
async def _router(settings: Settings) -> AsyncIterator[Ready]:
    ready: asyncio.Future[Ready] = asyncio.get_running_loop().create_future()
    async with _running(RouterService(settings).run(ready.set_result), ready):
        yield ready.result()


@contextlib.asynccontextmanager
async def _worker(settings: Settings) -> AsyncIterator[None]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    worker = Worker(settings.nats, Echo(latency_ms=20, cost=0.012), worker_id="demo-worker", topology=places_of(settings))
    async with _running(worker.work(ready.set_result), ready):
        yield


@contextlib.asynccontextmanager
async def _running(work: Coroutine[Any, Any, None], ready: asyncio.Future[Any]) -> AsyncIterator[None]:
    """Work that has said that it is ready; cancelled in the end."""
    task = asyncio.create_task(work)
    try:
        both: set[asyncio.Future[Any]] = {ready, task}
        await asyncio.wait(both, timeout=READY_WITHIN_S, return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            await task
        if not ready.done():
            raise Unanswered(f"not ready within {READY_WITHIN_S:g} s")
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def _soon(look: Callable[[], Awaitable[T | None]], is_it: Callable[[T], bool]) -> T | None:
    """What `look` finds once it is as it should be; what it found last, when that takes too long."""
    until = time.perf_counter() + SEEN_WITHIN_S
    while (found := await look()) is None or not is_it(found):
        if time.perf_counter() > until:
            break
        await asyncio.sleep(0.01)
    return found


def _fetched(url: str) -> str:
    with urlopen(url, timeout=5) as answer:  # noqa: S310 - our own address
        return str(answer.read().decode())
