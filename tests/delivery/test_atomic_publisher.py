import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import cast

import pytest

from router.core.message import Effect
from router.delivery.publish.acked_publisher import NotPublished, PublishAcks
from router.delivery.publish.atomic_publisher import (
    BATCH_HAS_DUPLICATE,
    BATCH_INCOMPLETE,
    BATCHES_NOT_ENABLED,
    AtomicPublisher,
)
from router.delivery.wire.api import JetStream
from router.delivery.wire.publish_faults import NO_STREAM, TOO_LARGE
from tests.support.delivery import FakeConnection, WorkStreams
from tests.support.waiting import until


@pytest.fixture
async def batches(place: WorkStreams, prefix: str) -> AsyncIterator[AtomicPublisher]:
    config = {
        "name": f"{prefix}A",
        "subjects": [f"{prefix}.a.>"],
        "allow_atomic": True,
        "max_msg_size": 1000,
        "storage": "file",
    }
    await place.jetstream.ask(f"STREAM.CREATE.{prefix}A", config)
    batches = AtomicPublisher(place.jetstream, timeout_s=60.0)
    await batches.open()
    yield batches
    await batches.close()


def effects(prefix: str, *ids: str, data: bytes = b"x") -> list[Effect]:
    return [Effect(f"{prefix}.a.b", data, one, {"N": one}) for one in ids]


async def stored(batches: AtomicPublisher, some: list[Effect]) -> PublishAcks:
    told = await batches.publish(some)
    assert not isinstance(told, NotPublished), told
    return told


async def refused(batches: AtomicPublisher, some: list[Effect]) -> int:
    told = await batches.publish(some)
    assert isinstance(told, NotPublished)
    return told.err_code


async def test_a_batch_has_a_publish_ack_for_each_message_in_its_order(
    batches: AtomicPublisher, place: WorkStreams, prefix: str
) -> None:
    await stored(batches, effects(prefix, "0"))
    publish_acks = await stored(batches, effects(prefix, *map(str, range(1, 400))))
    assert [(publish_ack.id, publish_ack.sequence) for publish_ack in publish_acks] == [
        (str(n), n + 1) for n in range(1, 400)
    ]
    found = await place.jetstream.message(f"{prefix}A", 17)
    assert found is not None
    assert (found.headers["Nats-Msg-Id"], found.headers["N"]) == ("16", "16")


async def test_a_known_id_refuses_the_whole_batch(
    batches: AtomicPublisher, place: WorkStreams, prefix: str
) -> None:
    await stored(batches, effects(prefix, "a"))
    assert await refused(batches, effects(prefix, "b", "a", "c")) == BATCH_HAS_DUPLICATE
    info = await place.jetstream.stream(f"{prefix}A") or {}
    assert info["state"]["messages"] == 1


async def test_a_message_that_the_stream_would_not_take_refuses_the_whole_batch(
    batches: AtomicPublisher, prefix: str
) -> None:
    some = effects(prefix, "a", "b", "c")
    some[1:2] = effects(prefix, "b", data=b"x" * 2000)
    assert await refused(batches, some) == BATCH_INCOMPLETE


async def test_a_message_above_the_connections_limit_is_sent_in_no_batch(
    batches: AtomicPublisher, prefix: str
) -> None:
    """The server would close the connection, and all that waits for publish acks would wait in
    vain.
    """
    some = [*effects(prefix, "a"), *effects(prefix, "b", data=b"x" * 1024 * 1024)]
    assert await refused(batches, some) == TOO_LARGE
    assert batches._connection.is_connected


async def test_a_stream_that_knows_no_batches_says_so(
    batches: AtomicPublisher, place: WorkStreams, prefix: str
) -> None:
    await place.jetstream.ask(
        f"STREAM.CREATE.{prefix}B",
        {"name": f"{prefix}B", "subjects": [f"{prefix}.b"], "storage": "file"},
    )
    assert (
        await refused(batches, [Effect(f"{prefix}.b", b"x", one) for one in "ab"])
        == BATCHES_NOT_ENABLED
    )


async def test_a_subject_that_no_stream_takes_is_not_stored(
    batches: AtomicPublisher, prefix: str
) -> None:
    assert (
        await refused(batches, [Effect(f"{prefix}.nowhere", b"x", one) for one in "ab"])
        == NO_STREAM
    )


async def test_a_server_that_knows_no_batches_says_so_by_its_publish_ack() -> None:
    """Older ones take the headers for any client's, and store the messages one by one."""
    connection = FakeConnection()
    old = AtomicPublisher(cast(JetStream, SimpleNamespace(connection=connection)))
    await old.open()
    storing = asyncio.create_task(old.publish(effects("p", "a", "b")))
    await until(lambda: connection.posts)
    connection.say(connection.posts[-1].reply, b'{"stream": "S", "seq": 7}')
    told = await storing
    assert isinstance(told, NotPublished)
    assert told.err_code == BATCHES_NOT_ENABLED
