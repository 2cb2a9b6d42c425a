"""Dead letters: stored, sent again, and, as the yardstick, the same messages published without any
letter.
"""

from __future__ import annotations

import time

from bench import requests
from bench.broker import jetstream_on, settings
from bench.child import Ready
from bench.question import Broken, Measured
from bench.stretch import MIB, peak_bytes
from router.contracts.dead_letter import build_dead_letter
from router.core.message import Effect, Message
from router.core.outcome import MAXDELIVER_EXHAUSTED, Fault
from router.delivery.publish.storing import open_publisher
from router.operate.dead_letters import read_by_filter
from router.operate.dead_letters import replay as send_again
from router.operate.dead_letters.publishers import AckedReplayPublisher

BATCH = 500
FAULT = Fault("extension_unavailable", "the provider was away")


async def fill(ready: Ready, *, url: str, count: int, to: str) -> Measured:
    """Store dead letters about `count` messages of the decide or the results subject."""
    subject = getattr(settings(url), to).subject
    await _store(url, [_letter(number, subject) for number in range(count)])
    return {"stored": count}


async def replay(ready: Ready, *, url: str, count: int) -> Measured:
    """Send every dead letter again."""
    stream = settings(url).streams.dlq.name
    async with jetstream_on(url) as jetstream:
        begin, cpu = time.perf_counter(), time.process_time()
        report = await send_again(jetstream, stream, read_by_filter(jetstream, stream))
        figures = _figures(count, begin, cpu)
        left = await jetstream.stream(stream)
    if report.sent != count or not report.is_whole or left is None or left["state"]["messages"]:
        raise Broken(f"of {count} letters {report.sent} were sent again: {report.kept[:3]}")
    return figures


async def publish(ready: Ready, *, url: str, count: int) -> Measured:
    """The same messages, from memory, through the same PubAck window."""
    subject = settings(url).results.subject
    effects = [
        Effect(subject, requests.body(number), f"m-{number}", _headers(number))
        for number in range(count)
    ]
    begin, cpu = time.perf_counter(), time.process_time()
    await _store(url, effects)
    return _figures(count, begin, cpu)


async def _store(url: str, effects: list[Effect]) -> None:
    async with jetstream_on(url) as jetstream, open_publisher(jetstream) as publisher:
        outlet = AckedReplayPublisher(jetstream, publisher, {})
        for begin in range(0, len(effects), BATCH):
            proofs = await outlet.send(effects[begin : begin + BATCH])
            if any(proofs.values()):
                raise Broken(f"not stored: {next(filter(None, proofs.values())).cause}")


def _figures(count: int, begin: float, cpu: float) -> Measured:
    seconds, burnt = time.perf_counter() - begin, time.process_time() - cpu
    return {"rate": count / seconds, "cpu_us": burnt / count * 1e6, "peak_mib": peak_bytes() / MIB}


def _letter(number: int, subject: str) -> Effect:
    data, headers = requests.body(number), {**_headers(number), "Nats-Msg-Id": f"m-{number}"}
    message = Message(subject, data, headers, "S", "c", number + 1, time.time_ns(), 3, "", 3)
    return build_dead_letter(
        message,
        MAXDELIVER_EXHAUSTED,
        FAULT,
        node_id="bench",
        now_ms=0,
        max_bytes=1 << 20,
        seen={"tenant_id": requests.TENANT},
    )


def _headers(number: int) -> dict[str, str]:
    return {"trace_id": requests.TRACE, "tenant_id": requests.TENANT, "version": "1"}
