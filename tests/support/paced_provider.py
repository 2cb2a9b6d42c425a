"""A provider as a process: it hears assignments, works on its own, and reports the latency and the
outcome that it is told to report.

    {name}.pace <- {"latency_ms": 100, "fails": false}      what it reports from now on

A test counts choices by what is reported, so nothing in it depends on speed. For a measurement it
may work indeed: with `works` it takes about `latency_ms`, and reports what it took; `cost` is what
a success costs.
"""

import asyncio
import json
import os
import random
import sys
import time
from collections.abc import Mapping
from typing import Any

from nats.aio.msg import Msg

from tests.support.forking import ForkedProgram, fork_server
from tests.support.patient_client import connect_patiently

READY = "provider.ready"
SPREAD = 0.2  # of the latencies of one that works


class PacedProvider:
    """The test's end."""

    def __init__(self, url: str, prefix: str, name: str, assignments: str, results: str) -> None:
        arguments = [
            "tests.support.paced_provider",
            url,
            f"{prefix}.{name}.pace",
            name,
            assignments,
            results,
        ]
        self._process: ForkedProgram = fork_server().start(arguments, dict(os.environ))
        self.pace_subject = f"{prefix}.{name}.pace"

    def wait_until_ready(self) -> None:
        line = self._process.stdout.readline()
        assert READY in line, f"the provider did not start: {line!r}"

    def stop(self) -> None:
        self._process.send_signal(15)
        self._process.wait(10)  # the server of forks reports its end to this object


async def serve(url: str, pace_subject: str, name: str, assignments: str, results: str) -> None:
    nc = await connect_patiently(url)
    pace = {"latency_ms": 100, "fails": False}
    at_work: set[asyncio.Task[None]] = set()

    async def on_pace(message: Msg) -> None:
        pace.update(json.loads(message.data))
        await message.respond(b"")

    async def on_assignment(message: Msg) -> None:
        assignment = json.loads(message.data)
        if assignment["executor"]["provider_id"] != name:
            return
        if not pace.get("works"):
            await nc.publish(
                results, make_result(assignment, pace), headers=make_headers(assignment)
            )
            return
        task = asyncio.create_task(work(assignment, dict(pace)))
        at_work.add(task)
        task.add_done_callback(at_work.discard)

    async def work(assignment: Mapping[str, str], told: Mapping[str, Any]) -> None:
        begun = time.monotonic()
        await asyncio.sleep(told["latency_ms"] / 1000 * random.lognormvariate(0, SPREAD))
        took = {**told, "latency_ms": (time.monotonic() - begun) * 1000}
        await nc.publish(results, make_result(assignment, took), headers=make_headers(assignment))

    await nc.subscribe(pace_subject, cb=on_pace)
    await nc.subscribe(assignments, cb=on_assignment)
    await nc.flush()
    print(READY, flush=True)
    await asyncio.Event().wait()


def make_result(assignment: Mapping[str, str], pace: Mapping[str, object]) -> bytes:
    outcome = {"status": "error", "error_code": "5XX"} if pace["fails"] else {"status": "success"}
    ids = {key: assignment[key] for key in ("assignment_id", "request_id", "tenant_id")}
    return json.dumps(
        {
            **ids,
            **outcome,
            "latency_ms": pace["latency_ms"],
            "cost": pace.get("cost", 0.01),
            "job": {"type": "chat"},
        }
    ).encode()


def make_headers(assignment: Mapping[str, str]) -> dict[str, str]:
    return {
        "Nats-Msg-Id": f"result-{assignment['assignment_id']}",
        "tenant_id": assignment["tenant_id"],
        "version": "1",
        "trace_id": f"t-{assignment['assignment_id']}",
    }


if __name__ == "__main__":
    asyncio.run(serve(*sys.argv[1:]))
