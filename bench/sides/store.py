"""Requests into the decide stream, acknowledgements and assignments into theirs, by a process of
their own that is never measured.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from bench import outcomes, requests
from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.question import Measured
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.sdk.worker import worker_durable

# the server drops what a stream cannot take in at once, and a `no_ack` stream does not say so
BATCH = 2000


HELD = 16 * 1024 * 1024  # bytes on their way at once

Body = Callable[[int], bytes]


async def fill(
    ready: Ready,
    *,
    url: str,
    count: int,
    first: int = 0,
    users: int = requests.USERS,
    payload: int = 0,
    is_pushed: bool = False,
) -> Measured:
    """Store requests `first` … count - 1, with a payload of so many bytes (0: the usual text),
    pushed to a worker or not.
    """
    config, text = settings(url), requests.text_of(payload) if payload else requests.TEXT

    def body(number: int) -> bytes:
        plain = requests.body(number, users, text)
        return requests.add_push(plain) if is_pushed else plain

    return await _filled(
        url, config.streams.decide.name, config.decide.subject, body, range(first, count)
    )


async def fill_poisoned(ready: Ready, *, url: str, count: int) -> Measured:
    """Requests of which none can be decided."""
    config = settings(url)
    return await _filled(
        url, config.streams.decide.name, config.decide.subject, requests.poisoned, range(count)
    )


async def fill_acks(ready: Ready, *, url: str, count: int) -> Measured:
    """Workers' acknowledgements of assignments that have no record."""
    config = settings(url)
    return await _filled(
        url, config.streams.acks.name, config.acks.subject, outcomes.as_ack, range(count)
    )


async def fill_assignments(ready: Ready, *, url: str, count: int) -> Measured:
    """Assignments for a worker, and its durable: one that a worker makes later would note where its
    own work begins.
    """
    config = settings(url)
    async with jetstream_on(url) as jetstream:
        await topology.create(jetstream, topology.Topology((), (worker_durable(),)))
    return await _filled(
        url,
        config.streams.assignments.name,
        config.assignment.subjects[0],
        outcomes.as_assignment,
        range(count),
        outcomes.assignment_head,
    )


async def _filled(  # noqa: PLR0917
    url: str, stream: str, subject: str, body: Body, numbers: range, head: Body = requests.head
) -> Measured:
    batch = max(1, min(BATCH, HELD // len(body(0))))
    async with jetstream_on(url) as jetstream:
        for begin in range(0, len(numbers), batch):
            some = numbers[begin : begin + batch]
            for number in some:
                jetstream.connection.publish_nowait(subject, body(number), "", head(number))
            await jetstream.connection.flush()
            while await _stored(jetstream, stream) < some.stop:  # noqa: ASYNC110 - asks the server
                await asyncio.sleep(0.002)
    return {"stored": len(numbers)}


async def _stored(jetstream: JetStream, stream: str) -> int:
    info = await jetstream.stream(stream)
    return int(info["state"]["last_seq"]) if info else 0
