"""The demo's environment: a broker in a temporary directory, a router and a worker in this process,
a client, and a recorder.

Nothing is left behind.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.request import urlopen

from router.cli.demo.requests import Counters, DemoCall, DemoRequest
from router.cli.demo.round_trip import SEEN_WITHIN_S, DemoSubjects, MessageRecorder, record_messages
from router.config import Settings, load
from router.delivery.wire.api import JetStream
from router.operate.dead_letters import (
    DeadLetter,
    DeadLetterFilter,
    ReplayOptions,
    ReplayReport,
    list_newest_first,
    read_by_sequence,
    replay,
    show,
)
from router.process.embedded import EmbeddedServer
from router.sdk import Answer, Client, Worker
from router.sdk.background import poll, run_in_background
from router.sdk.step import Echo
from router.serve.commands.serve import find_samples
from router.serve.service import Ready, RouterService
from router.shell.session import open_jetstream
from router.work.assignments import find_assignment
from router.work.commands.workers import make_places

READY_WITHIN_S = 60.0  # of a busy machine
CONNECTED_WITHIN_MS = 15_000
_COUNTER = re.compile(r"(router_\w{1,100}_total(?:\{[^{}]*\})?) ([0-9.e+]+)")


class DemoEnvironment:
    """What the chapters act on."""

    def __init__(
        self,
        settings: Settings,
        client: Client,
        jetstream: JetStream,
        witness: MessageRecorder,
        ready: Ready,
    ) -> None:
        self.settings = settings
        self.witness = witness
        self.ready = ready
        self._client = client
        self._jetstream = jetstream

    async def ask(self, step: DemoRequest) -> DemoCall:
        """Send a request and measure its time."""
        begun = time.perf_counter()
        answer = await self.decide(step.body)
        return DemoCall(step, answer, (time.perf_counter() - begun) * 1000)

    async def decide(self, body: bytes) -> Answer:
        return await self._client.decide_raw(body, timeout=SEEN_WITHIN_S)

    async def read_stored_status(self, assignment_id: str) -> str | None:
        """Return an assignment's status, as `router assignments` shows it; the router writes it
        shortly after the ack arrives.
        """
        bucket = self.settings.buckets.assignments_known.name
        stored = await poll(
            lambda: find_assignment(self._jetstream, bucket, assignment_id),
            lambda assignment: assignment is not None and assignment.acknowledgement is not None,
            SEEN_WITHIN_S,
        )
        return stored.status if stored is not None else None

    async def publish(self, subject: str, data: bytes) -> None:
        """Store a message, as any client would."""
        await self._jetstream.connection.jetstream().publish(subject, data)

    async def wait_for_dead_letter(self, subject: str) -> DeadLetter | None:
        """Wait for the newest dead letter of a subject."""
        wanted = DeadLetterFilter(subject=subject)
        return await poll(
            lambda: self._find_newest(wanted),
            lambda dead_letter: dead_letter is not None,
            SEEN_WITHIN_S,
        )

    async def _find_newest(self, wanted: DeadLetterFilter) -> DeadLetter | None:
        async for dead_letter in list_newest_first(
            self._jetstream, self.settings.streams.dlq.name, wanted, limit=1
        ):
            return dead_letter
        return None

    async def replay_with(self, dead_letter: DeadLetter, payload: bytes) -> ReplayReport:
        """Replay the message of a dead letter with another payload."""
        stream = self.settings.streams.dlq.name
        how = ReplayOptions(subject_pattern=self.settings.dlq.subject_pattern, payload=payload)
        return await replay(
            self._jetstream,
            stream,
            read_by_sequence(self._jetstream, stream, [dead_letter.sequence]),
            how,
        )

    async def read_dead_letter(self, sequence: int) -> DeadLetter | None:
        return await show(self._jetstream, self.settings.streams.dlq.name, sequence)

    async def read_counters(self) -> Counters:
        """Return every counter that is not 0, as a scrape shows it."""
        text = await asyncio.to_thread(_fetch, f"{self.ready.http}/metrics")
        matches = (match for line in text.splitlines() if (match := _COUNTER.fullmatch(line)))
        return {match[1]: float(match[2]) for match in matches if float(match[2])}


@contextlib.asynccontextmanager
async def open_environment() -> AsyncIterator[DemoEnvironment]:
    """Start everything, and stop it in reverse order."""
    with tempfile.TemporaryDirectory(prefix="router-demo-") as directory:
        server = EmbeddedServer(Path(directory))
        url = await server.start(READY_WITHIN_S)
        try:
            given = {
                "nats.connect_timeout_ms": CONNECTED_WITHIN_MS,
                "policies.dir": find_samples(),
                "acks.enabled": True,
            }
            settings = load(None, {"nats.url": url, "http.port": 0, **given}, {}).settings
            async with (
                run_in_background(RouterService(settings).run, READY_WITHIN_S) as ready,
                run_in_background(_build_worker(settings).work, READY_WITHIN_S),
                Client(settings.nats) as client,
                open_jetstream(settings) as jetstream,
                record_messages(jetstream.connection, DemoSubjects(settings).all) as witness,
            ):
                yield DemoEnvironment(settings, client, jetstream, witness, ready)
        finally:
            await server.stop()


def _build_worker(settings: Settings) -> Worker:
    return Worker(
        settings.nats,
        Echo(latency_ms=20, cost=0.012),
        worker_id="demo-worker",
        topology=make_places(settings),
    )


def _fetch(url: str) -> str:
    with urlopen(url, timeout=SEEN_WITHIN_S) as answer:  # noqa: S310 - our own address
        return str(answer.read().decode())
