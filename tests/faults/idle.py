"""What idle routers cost a server: python -m tests.faults.idle --instances 50 --seconds 60

Processor time of the server, messages, and calls of its API, a second. All instances run in one process with a connection each for every
role, as in processes of their own; none has a policy or a request. On a busy machine the server takes less, because it handles together
what comes together: 3.7 % of a core at a load of 5, 1.8 % at one of 20, for the same fifty instances.
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

from router.app import RouterService
from tests.support.broker import Broker
from tests.support.service import settings_for

SETTLE_S = 45.0  # the first pulls have ended without a message, so that their successors are those of idle consumers


class Usage(Struct, frozen=True):
    """Of a server since its start."""

    at: float
    cpu_s: float
    received: int
    sent: int


async def measure(instances: int, seconds: float) -> str:
    broker = Broker('http: "127.0.0.1:-1"').start()
    running: list[asyncio.Task[None]] = []
    try:
        for _ in range(instances):
            running.append(await _start(broker))
        await asyncio.sleep(SETTLE_S)
        before = await asyncio.to_thread(_read_usage, broker)
        await asyncio.sleep(seconds)
        after = await asyncio.to_thread(_read_usage, broker)
        calls = await _count_calls(broker, seconds)
    finally:
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        broker.remove()
    return _describe(before, after) + f", API calls {calls / seconds:.2f} a second, load of the machine {os.getloadavg()[0]:.1f}"


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


def _describe(before: Usage, after: Usage) -> str:
    seconds = after.at - before.at
    received, sent = (after.received - before.received) / seconds, (after.sent - before.sent) / seconds
    cpu = 100 * (after.cpu_s - before.cpu_s) / seconds
    return f"server {cpu:.2f} % of a core, received {received:.1f} and sent {sent:.1f} messages a second"


async def _count_calls(broker: Broker, seconds: float) -> int:
    """Counted after the rest, because who counts gets a copy of each."""
    calls: Counter[str] = Counter()

    async def count(message: Msg) -> None:
        calls[message.subject] += 1

    client = await nats.connect(broker.url)
    await client.subscribe("$JS.API.>", cb=count)
    await client.flush()
    await asyncio.sleep(seconds)
    await client.close()
    return calls.total()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults.idle", description=__doc__.partition("\n")[0])
    parser.add_argument("--instances", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    print(asyncio.run(measure(options.instances, options.seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
