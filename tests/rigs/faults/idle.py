"""What idle routers cost a server: python -m tests.rigs.faults.idle --instances 50 --seconds 60

Processor time of the server, messages, and calls of its API, a second. All instances run in one
process with a connection each for every role, as in processes of their own; none has a policy or a
request. On a busy machine the server takes less, because it handles together what comes together:
3.7 % of a core at a load of 5, 1.8 % at one of 20, for the same fifty instances.
"""

import argparse
import asyncio
import json
import os
import sys
import time
import urllib.request
from collections import Counter
from pathlib import Path

import nats
from msgspec import Struct
from nats.aio.msg import Msg

from bench.machine import facts
from router.serve.service import RouterService
from tests.support.broker import Broker
from tests.support.service import settings_for

CALLS = "calls of the API"
# the first pulls have ended without a message, so that their successors are those of idle consumers
SETTLE_S = 45.0


class Usage(Struct, frozen=True):
    """Of a server since its start."""

    at: float
    cpu_s: float
    received: int
    sent: int


class Idle(Struct, frozen=True):
    """What was measured, of so many instances."""

    instances: int
    before: Usage
    after: Usage
    kinds: dict[str, float]  # messages a second
    load: tuple[float, float, float]  # of the machine

    @property
    def calls(self) -> float:
        return self.kinds.get(CALLS, 0.0)


async def measure(instances: int, seconds: float) -> Idle:
    broker = Broker('http: "127.0.0.1:-1"').start()
    running: list[asyncio.Task[None]] = []
    try:
        for _ in range(instances):
            running.append(await _start(broker))
        await asyncio.sleep(SETTLE_S)
        before = await asyncio.to_thread(_read_usage, broker)
        await asyncio.sleep(seconds)
        after = await asyncio.to_thread(_read_usage, broker)
        counted = await _count_kinds(broker, seconds)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        broker.remove()
    return Idle(
        instances,
        before,
        after,
        {kind: count / seconds for kind, count in counted.most_common()},
        os.getloadavg(),
    )


async def _start(broker: Broker) -> "asyncio.Task[None]":
    """A router, ready."""
    ready = asyncio.Event()
    service = RouterService(settings_for(broker.url, "idle"), http=False)
    task = asyncio.create_task(service.run(lambda _: ready.set()))
    await ready.wait()
    return task


def _read_usage(broker: Broker) -> Usage:
    with urllib.request.urlopen(f"{broker.monitor_url}/varz") as page:
        told = json.load(page)
    ticks = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    cpu_s = sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")
    return Usage(time.monotonic(), cpu_s, told["in_msgs"], told["out_msgs"])


def describe(idle: Idle) -> str:
    before, after = idle.before, idle.after
    seconds = after.at - before.at
    received, sent = (
        (after.received - before.received) / seconds,
        (after.sent - before.sent) / seconds,
    )
    cpu = 100 * (after.cpu_s - before.cpu_s) / seconds
    return (
        f"server {cpu:.2f} % of a core, received {received:.1f} and sent {sent:.1f} "
        "messages a second, "
        f"API calls {idle.calls:.2f} a second, load of the machine {idle.load[0]:.1f}"
    )


def render_page(idle: Idle, machine: dict[str, str]) -> str:
    lines = [
        "# What idle routers cost a server",
        "",
        (
            f"{idle.instances} routers without a policy and without a request, on one server. "
            f"`{machine['command']}` wrote this."
        ),
        "",
        *(f"- {name}: {value}" for name, value in machine.items() if name != "command"),
        "",
        describe(idle) + ".",
        "",
        "| messages | a second |",
        "|---|---:|",
        *(f"| {kind} | {rate:.2f} |" for kind, rate in idle.kinds.items()),
        "",
        (
            "What each instance hears is counted once. Heartbeats are those of the watchers of "
            "buckets and of waiting pulls."
        ),
    ]
    return "\n".join(lines) + "\n"


async def _count_kinds(broker: Broker, seconds: float) -> Counter[str]:
    """Counted after the rest, because this client gets a copy of each message."""
    kinds: Counter[str] = Counter()

    async def count(message: Msg) -> None:
        kinds[name_kind(message.subject, message.headers or {})] += 1

    client = await nats.connect(broker.url)
    await client.subscribe(">", cb=count)
    await client.flush()
    await asyncio.sleep(seconds)
    await client.close()
    return kinds


def name_kind(subject: str, headers: dict[str, str]) -> str:
    if subject.startswith("$JS.API."):
        return CALLS
    if subject.startswith("$JS.EVENT."):
        return "advisories, which nothing hears"
    if subject.startswith("_INBOX"):
        return "heartbeats" if "Nats-Last-Consumer" in headers else "answers"
    return f"`{subject}`"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.idle", description=__doc__.partition("\n")[0]
    )
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    options = parser.parse_args()
    command = (
        f"python -m tests.rigs.faults.idle --instances {options.instances} --seconds "
        f"{options.seconds:g}"
    )
    idle = asyncio.run(measure(options.instances, options.seconds))
    print(describe(idle))
    if options.write is not None:
        options.write.write_text(render_page(idle, facts(command)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
