"""The bare yardstick of a worker: stock nats-py, as tightly as that client allows.

    assignment ──> publish its acknowledgement ──> publish its result ──> the publish ack, by callback ──> settle

It parses an assignment and builds what the SDK's worker publishes of it, with the same fields and
headers. It checks, times, limits and retries nothing, sends no heartbeat, and a refusal stops it.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import nats
import orjson
from nats.aio.client import Client
from nats.aio.msg import Msg

from bench.child import Ready
from bench.question import Broken, Measured
from bench.sides.bare import EXPIRES_NS, WINDOW
from bench.stretch import stretch

SHARED = ("version", "assignment_id", "request_id", "tenant_id", "trace_id")


async def backlog(
    ready: Ready,
    *,
    url: str,
    first: int,
    last: int,
    stream: str,
    durable: str,
    subjects: Mapping[str, str],
) -> Measured:
    """Work `last` stored assignments off."""
    client = await nats.connect(url)
    worker = BareWorker(client, f"$JS.API.CONSUMER.MSG.NEXT.{stream}.{durable}", subjects)
    await worker.open()
    figures = await stretch(lambda: worker.done, first, last)
    await client.drain()
    return figures


class BareWorker:
    """One durable pulled, with at most a window of assignments on their way."""

    def __init__(self, client: Client, next_subject: str, subjects: Mapping[str, str]) -> None:
        self._client = client
        self._next = next_subject
        self._acks = subjects["acks"]
        self._results = subjects["results"]
        self._inbox = client.new_inbox()
        self._publish_acks = client.new_inbox()
        # of what waits for its publish ack, by the inbox that it comes to
        self._tokens: dict[str, str] = {}
        self._count = 0
        self._outstanding = 0
        self.done = 0

    async def open(self) -> None:
        await self._client.subscribe(self._inbox, cb=self._on_assignment)
        await self._client.subscribe(f"{self._publish_acks}.*", cb=self._on_publish_ack)
        await self._pull(WINDOW)

    async def _pull(self, batch: int) -> None:
        self._outstanding += batch
        request = orjson.dumps({"batch": batch, "expires": EXPIRES_NS})
        await self._client.publish(self._next, request, reply=self._inbox)

    async def _on_assignment(self, msg: Msg) -> None:
        if msg.subject == self._inbox:  # a status: the request has ended
            self._outstanding = 0
            await self._pull(WINDOW)
            return
        assignment = orjson.loads(msg.data)
        shared = {name: assignment[name] for name in SHARED}
        headers = {name: assignment[name] for name in ("version", "tenant_id", "trace_id")}
        of, now = assignment["assignment_id"], time.time_ns() // 1_000_000
        taken = orjson.dumps({**shared, "status": "accepted", "acknowledged_at": now})
        await self._client.publish(
            self._acks, taken, headers={**headers, "Nats-Msg-Id": f"ack:{of}:accepted:bare"}
        )
        self._count += 1
        inbox = f"{self._publish_acks}.{self._count}"
        self._tokens[inbox] = msg.reply
        done = orjson.dumps(build_result(assignment, shared, now))
        await self._client.publish(
            self._results, done, reply=inbox, headers={**headers, "Nats-Msg-Id": f"result:{of}"}
        )

    async def _on_publish_ack(self, msg: Msg) -> None:
        if "error" in orjson.loads(msg.data):
            raise Broken(f"not stored: {msg.data!r}")
        await self._client.publish(self._tokens.pop(msg.subject))
        self.done += 1
        self._outstanding -= 1
        if self._outstanding <= WINDOW // 2:
            await self._pull(WINDOW // 2)


def build_result(
    assignment: Mapping[str, Any], shared: Mapping[str, Any], now_ms: int
) -> dict[str, Any]:
    """The result of a function that returned at once."""
    return {
        **shared,
        "provider_id": assignment["executor"]["provider_id"],
        "job": {"type": assignment["job"]["type"]},
        "status": "success",
        "latency_ms": 0,
        "cost": 0.002,
        "metadata": {"worker_id": "bare", "attempts": 1},
        "timestamp": now_ms,
        "payload": "done",
    }
