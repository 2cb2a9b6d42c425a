"""Frames that no client library would send, over a raw socket: the server stores them, and no
router may die of them.
"""

import asyncio
from contextlib import AsyncExitStack

from nats.aio.client import Client

from router.config import Settings
from tests.support.broker import Broker
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import (
    Inboxes,
    MessageRecorder,
    a_request,
    is_ready,
    is_settled,
    read_dead_letters,
    read_metric,
)
from tests.support.waiting import until

# Header blocks of 1 to 8 bytes, with and without the protocol's own first line; then a status that
# is not UTF-8.
BLOCKS = [
    *(b"\x00\x01\x02\x03\x04\x05\x06\x07"[:size] for size in range(1, 9)),
    *(b"NATS/1.0"[:size] for size in range(1, 9)),
    b"NATS/1.0 \xff\xfe\xfd\r\n\r\n",
    b"NATS/1.0 503 \xc3\x28\r\n\r\n",
]


async def test_malformed_frames_kill_no_router(nc: Client, broker: Broker, prefix: str) -> None:
    """Story 1: with two routers, every frame ends in a dead letter, the 20 good requests behind are
    answered, both routers live.
    """
    settings = settings_for(broker.url, prefix)
    replies = await MessageRecorder.on(nc, f"{settings.decide.subject}.reply")
    inboxes = await Inboxes.under(nc, prefix)
    async with AsyncExitStack() as stack:
        routers = [await stack.enter_async_context(a_router(settings)) for _ in range(2)]
        await _send_raw(broker.port, _frames(settings, inboxes))
        for n in range(20):
            await inboxes.publish(nc, settings, n)
        await until(lambda: all(inboxes.answers(n) for n in range(20)))
        assert all(b'"ok":true' in inboxes.answers(n)[0] for n in range(20))

        await until(lambda: is_settled(nc, settings))
        assert len(await read_dead_letters(nc, settings)) == len(BLOCKS) + 1
        # A header block that cannot be read takes no reply address away; a reply address that
        # cannot be read is none.
        await until(
            lambda: all(
                b"invalid_request" in b"".join(inboxes.answers(f"frame-{n}"))
                for n in range(len(BLOCKS))
            )
        )
        await until(lambda: len(replies) == 1)
        await _both_live(nc, settings, routers, inboxes)


def _frames(settings: Settings, inboxes: Inboxes) -> bytes:
    subject = settings.decide.subject.encode()
    frames = b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n'
    for n, block in enumerate(BLOCKS):
        garbage = b"neither json nor protobuf: %d" % n
        sizes = b"%d %d" % (len(block), len(block) + len(garbage))
        frames += b"HPUB %b %b %b\r\n%b%b\r\n" % (
            subject,
            inboxes.of(f"frame-{n}").encode(),
            sizes,
            block,
            garbage,
        )
    return frames + b"PUB %b \xff\xfe\xfd 7\r\ngarbage\r\nPING\r\n" % subject


async def _send_raw(port: int, frames: bytes) -> None:
    """Returns when the server has taken them all."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(frames)
    while (line := await reader.readline()) != b"PONG\r\n":
        assert not line.startswith(b"-ERR"), line
    writer.close()


async def _both_live(
    nc: Client, settings: Settings, routers: list[Running], inboxes: Inboxes
) -> None:
    """A router that is deaf acknowledges nothing more, however much is asked."""
    before = [
        await read_metric(router.ready.http, "router_jetstream_ack_total") for router in routers
    ]
    asked = iter(range(1_000_000))

    async def have_both_worked() -> bool:
        for n in [next(asked) for _ in range(50)]:
            await inboxes.publish(nc, settings, f"again-{n}", a_request(f"again-{n}"))
        now = [
            await read_metric(router.ready.http, "router_jetstream_ack_total") for router in routers
        ]
        return all(after > then for after, then in zip(now, before, strict=True))

    await until(have_both_worked, what="each router to acknowledge something")
    assert [await is_ready(router.ready.http) for router in routers] == [True, True]
