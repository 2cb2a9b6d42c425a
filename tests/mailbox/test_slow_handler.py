"""T13: ten thousand events behind a service that takes a second for each: none is delivered twice,
and no other consumer waits for it.
"""

import asyncio
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from statistics import quantiles
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from nats.aio.client import Client
from nats.aio.msg import Msg

from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.inbox import EVENTS, is_settled, nowhere, publish
from tests.support.inbox_process import InboxProcess
from tests.support.patient_client import connect_patiently
from tests.support.postgres import rows
from tests.support.result_pages import write_page
from tests.support.waiting import until

BACKLOG = 10_000
IN_HAND = 50
HANDLER_S, ACK_WAIT_S = 1.0, 2.0
BEATS_EVERY_S = 0.02
MIB = 1024 * 1024
SERVE = """
import sys, uvicorn
from router.sdk.samples.service import SampleService
uvicorn.run(SampleService().app, port=int(sys.argv[1]), log_level="critical")
"""
HEADS = (
    "| backlog | in hand | delivered again | inbox, MiB at a quarter | at the end |"
    " other durable alone, p50 ms | p99 ms | beside it, p50 ms | p99 ms |\n"
)


class Waited(NamedTuple):
    """How long another durable's messages took to be delivered, milliseconds."""

    p50: float
    p99: float


@pytest.mark.matrix
@pytest.mark.slow  # ten thousand seconds of handlers, fifty at a time
@pytest.mark.timeout(1200)
async def test_ten_thousand_behind_a_service_that_takes_a_second(
    broker: Broker, nc: Client, dsn: str
) -> None:
    async with connected(broker.url) as connection:
        await topology.create(JetStream(connection), Topology((EVENTS,)))
    for begin in range(0, BACKLOG, 500):
        await publish(nc, range(begin, begin + 500), {"seconds": HANDLER_S})
    resident: list[int] = []
    pauses: list[float] = [0.0]
    async with _a_slow_service() as url, _another_durable(broker) as waits:
        alone = await _during(waits, _seconds(15.0))
        inbox = InboxProcess(
            broker.url,
            dsn,
            "--url",
            url,
            ack_wait_ms=int(ACK_WAIT_S * 1000),
            settings={"inbox.max_ack_pending": IN_HAND},
        )
        try:
            await asyncio.to_thread(inbox.start)
            beside = await _during(waits, _emptied(nc, inbox, resident, pauses))
        finally:
            inbox.remove()
    again = await rows(
        dsn,
        (
            "SELECT count(*) FILTER (WHERE attempts > 1), count(*) FILTER (WHERE processed_at "
            "IS NULL) FROM inbox_messages"
        ),
    )
    info = await nc.jetstream().consumer_info(EVENTS.name, "sea__from_vibespro")
    assert info.delivered is not None
    redelivered = info.delivered.consumer_seq - BACKLOG
    quarter, end = resident[len(resident) // 4], resident[-1]
    figures = (f"{one:.2f}" for one in (quarter / MIB, end / MIB, *alone, *beside))
    line = f"| {BACKLOG} | {IN_HAND} | {redelivered} | {' | '.join(figures)} |\n"
    note = (
        f"Each call takes {HANDLER_S:g} s, acknowledgements are waited for {ACK_WAIT_S:g} "
        "s. The other durable is on a stream of its own,"
        f" a message each {BEATS_EVERY_S * 1000:.0f} ms, from its publication to its "
        "delivery. Broker, database, service, inbox and this"
        " measuring share the machine's cores."
    )
    write_page(
        "inbox_slow_handler",
        "A backlog behind a slow handler",
        HEADS + "| ---: " * 9 + "|\n" + line,
        note,
    )
    assert again == [(0, 0)]
    # The server redelivers to a process that stops longer than the signals leave of an ack wait:
    # then this loop stopped, too.
    assert redelivered == 0, f"the longest this process stood still meanwhile: {max(pauses):.2f} s"
    assert end < quarter * 1.1, resident


@asynccontextmanager
async def _a_slow_service() -> AsyncIterator[str]:
    """The sample service as a process of its own; it takes as long as the event says."""
    url = nowhere()
    port = urlsplit(url).port
    process = subprocess.Popen([sys.executable, "-c", SERVE, str(port)])  # noqa: ASYNC220 - it returns at once
    try:
        await until(lambda: _is_listening(port or 0), within_s=60)
        yield url
    finally:
        process.kill()
        process.wait()


async def _is_listening(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    return True


@asynccontextmanager
async def _another_durable(broker: Broker) -> AsyncIterator[list[float]]:
    """The waits of its messages, milliseconds; the list grows."""
    client = await connect_patiently(broker.url)
    js = client.jetstream()
    await js.add_stream(name="BEATS", subjects=["beats"])
    waits: list[float] = []

    async def hear(message: Msg) -> None:
        waits.append((time.perf_counter() - float(message.data)) * 1000)
        await message.ack()

    await js.subscribe("beats", durable="beats", cb=hear, manual_ack=True)
    beating = asyncio.create_task(_beat(client))
    try:
        yield waits
    finally:
        beating.cancel()
        await asyncio.wait([beating])
        await client.close()


async def _beat(client: Client) -> None:
    while True:
        await client.jetstream().publish("beats", str(time.perf_counter()).encode())
        await asyncio.sleep(BEATS_EVERY_S)


async def _during(waits: list[float], work: Awaitable[None]) -> Waited:
    """While it lasts."""
    begin = len(waits)
    await work
    cuts = quantiles(waits[begin:], n=100)
    return Waited(cuts[49], cuts[98])


async def _seconds(seconds: float) -> None:
    until_ = time.monotonic() + seconds
    await until(lambda: time.monotonic() >= until_, within_s=seconds + 5)


async def _emptied(
    nc: Client, inbox: InboxProcess, resident: list[int], pauses: list[float]
) -> None:
    """Until the backlog is handled; the inbox's memory each second, and the seconds between two
    looks.
    """
    looked, last = 0.0, time.monotonic()

    async def is_done() -> bool:
        nonlocal looked, last
        now = time.monotonic()
        pauses.append(now - last)
        last = now
        if now - looked >= 1:
            looked = now
            said = await asyncio.to_thread(
                subprocess.check_output, ["ps", "-o", "rss=", "-p", str(inbox.pid)], text=True
            )
            resident.append(int(said) * 1024)
        return await is_settled(nc)

    await until(is_done, within_s=900)
