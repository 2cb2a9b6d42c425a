"""A pipeline of three extensions, and who calls it: the router, or a program with nats-py and
nothing else.

`serve` is the extensions themselves, the same for both: a process of its own that answers from the
reader, so that it is neither side's bottleneck.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from pathlib import Path

import nats
import orjson

from bench import requests
from bench.child import Ready
from bench.figures import percentile
from bench.question import Measured
from bench.sides.router import settled
from bench.stretch import stretch
from router.config import Settings, load
from router.delivery.wire.first_connection import connect
from router.process.observability import Histogram, configure
from router.serve.service import RouterService

HOME = Path(__file__).parent.parent / "pipeline"
SUBJECTS = (
    "beamline.ext.pre.lower.v1",
    "beamline.ext.validate.guard.v1",
    "beamline.ext.post.mark.v1",
)
TEXT = "hello there, what is the weather like in lisbon this afternoon?"
CHANGED = orjson.dumps(
    {
        "payload": {"message_type": "chat", "payload": TEXT, "metadata": {"source": "gateway"}},
        "metadata": {"lang": "en"},
    }
)
ANSWERS = dict(
    zip(
        SUBJECTS,
        (CHANGED, b'{"status":"ok"}', b'{"payload":{"payload":""},"metadata":{"marked":"yes"}}'),
        strict=True,
    )
)


async def serve(ready: Ready, *, url: str) -> Measured:
    """Answer until the parent ends this process."""
    connection = await connect({"servers": [url]})

    def answer(subject: str, reply: str, _data: bytes, _headers: Mapping[str, str] | None) -> None:
        connection.publish_nowait(reply, ANSWERS[subject])

    await connection.subscribe_direct("beamline.ext.>", answer)
    await connection.flush()
    ready()
    await asyncio.Event().wait()
    return {}


# -- the router ------------------------------------------------------------------------------------


async def router(ready: Ready, *, url: str, first: int, last: int) -> Measured:
    """Serve, and measure from request `first` to request `last`; `handled_ms`: p50 from the start
    of handling to the decision.
    """
    configure("warning")
    service = RouterService(_settings(url), policies_dir=HOME / "policies")
    kept = service.metrics.decision_seconds = Kept("kept", "")
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(service.run(lambda _: ready()))
        figures = await stretch(settled(service), first, last)
        serving.cancel()
    decisions = service.metrics.decisions
    if any(times for (*_, outcome), times in decisions.items() if outcome != "ok"):
        raise RuntimeError(f"not every decision was one: {dict(decisions)}")
    return {**figures, "handled_ms": percentile(sorted(kept.seconds[first:]), 50) * 1e3}


class Kept(Histogram):
    """A histogram that keeps what it is told: half a millisecond is too fine for its edges."""

    def __init__(self, name: str, text: str) -> None:
        super().__init__(name, text)
        self.seconds: list[float] = []

    def observe(self, value: float) -> None:
        self.seconds.append(value)


def _settings(url: str) -> Settings:
    """The consumer takes no more requests than wait at once: of a whole backlog of one tenant the
    rest would be answered `overloaded`.
    """
    return load(
        None,
        {
            "nats.url": url,
            "http.port": 0,
            "extensions.dir": str(HOME / "extensions"),
            "decide.slots": 64,
        },
        {},
    ).settings


# -- three nc.request calls ------------------------------------------------------------------------


async def bare(ready: Ready, *, url: str, warm: int, count: int, in_flight: int) -> Measured:
    """`count` times the three calls, by `in_flight` tasks; `handled_ms`: p50 of all three."""
    client = await nats.connect(url)
    await asyncio.gather(*(_call(client, warm // in_flight + 1, []) for _ in range(in_flight)))
    seconds: list[float] = []
    begin, cpu = time.perf_counter(), time.process_time()
    await asyncio.gather(*(_call(client, count // in_flight, seconds) for _ in range(in_flight)))
    done, elapsed, cpu = len(seconds), time.perf_counter() - begin, time.process_time() - cpu
    await client.close()
    return {
        "rate": done / elapsed,
        "cpu_us": cpu / done * 1e6,
        "handled_ms": percentile(sorted(seconds), 50) * 1e3,
    }


async def _call(client: nats.NATS, count: int, seconds: list[float]) -> None:
    headers = {"trace_id": requests.TRACE, "tenant_id": requests.TENANT}
    for number in range(count):
        begin = time.perf_counter()
        metadata: dict[str, object] = {
            "user_id": f"user-{number}",
            "lang": "en",
            "policy_id": "default",
        }
        message: object = {
            "message_id": f"m-{number}",
            "message_type": "chat",
            "payload": TEXT,
            "metadata": {"source": "gateway"},
        }
        for subject in SUBJECTS:
            asked = {
                "trace_id": requests.TRACE,
                "tenant_id": requests.TENANT,
                "payload": message,
                "metadata": metadata,
                "config": {},
            }
            answer = orjson.loads(
                (
                    await client.request(subject, orjson.dumps(asked), timeout=5, headers=headers)
                ).data
            )
            message = answer.get("payload") or message
        seconds.append(time.perf_counter() - begin)
