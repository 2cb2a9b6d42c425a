"""Lookups on a real bucket: keys that are wanted at the same time travel in one request, and each
caller gets its own value.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.kv import batched_reader
from router.delivery.kv.batched_reader import MAX_KEYS_PER_REQUEST, MAX_REPLY_BYTES, BatchedKvReader
from router.delivery.kv.record_creator import WriteOnceKv
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import head_of
from router.delivery.wire.frames import Headers
from tests.support.delivery import connected, count_timers
from tests.support.waiting import until


async def test_each_caller_gets_its_own_record_and_a_missing_one_is_none(
    jetstream: JetStream, prefix: str
) -> None:
    records, lookups = WriteOnceKv(jetstream, prefix), BatchedKvReader(jetstream, prefix)
    keys = [f"k-{number}" for number in range(3 * MAX_KEYS_PER_REQUEST)]
    for key in keys[::2]:
        await records.create(key, key.encode())
    found = await asyncio.gather(*(lookups.find(key) for key in (*keys, *keys)))
    assert (
        found == [key.encode() if number % 2 == 0 else None for number, key in enumerate(keys)] * 2
    )


async def test_lookups_one_after_the_other_share_a_timer(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batched_reader, "AGAIN_AFTER_S", 3600.0)
    lookups = BatchedKvReader(jetstream, prefix, timeout_s=3600.0)
    with count_timers(lookups) as timers:
        for number in range(20):
            await lookups.find(f"k-{number}")
    assert len(timers) == 1


async def test_only_absent_ones_are_none(jetstream: JetStream, prefix: str) -> None:
    assert await asyncio.gather(
        *(BatchedKvReader(jetstream, prefix).find(key) for key in "ab")
    ) == [None, None]


async def test_a_deleted_record_is_none(jetstream: JetStream, prefix: str) -> None:
    await WriteOnceKv(jetstream, prefix).create("k", b"record")
    await jetstream.publish(f"$KV.{prefix}.k", b"", {"KV-Operation": "DEL"})
    assert await BatchedKvReader(jetstream, prefix).find("k") is None


async def test_a_missing_bucket_is_away_and_not_empty(jetstream: JetStream) -> None:
    with pytest.raises(BrokerUnavailable):
        await BatchedKvReader(jetstream, "nowhere").find("k")


async def test_silence_is_away(jetstream: JetStream, prefix: str) -> None:
    jetstream.connection.publish_nowait = lambda *_: None  # type: ignore[method-assign]
    with pytest.raises(BrokerUnavailable):
        await BatchedKvReader(jetstream, prefix, timeout_s=0.01).find("k")


async def test_a_request_that_a_vanished_copy_swallowed_is_repeated(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of three copies one is paused: the server goes on giving it a third of the requests."""
    monkeypatch.setattr(batched_reader, "AGAIN_AFTER_S", 0.01)
    await WriteOnceKv(jetstream, prefix).create("k", b"record")
    lookups = BatchedKvReader(jetstream, prefix, timeout_s=3600.0)
    post = jetstream.connection.publish_nowait
    swallowed: list[str] = []

    def swallow(subject: str, *rest: Any) -> None:
        if len(swallowed) < 2:
            swallowed.append(subject)
        else:
            post(subject, *rest)

    jetstream.connection.publish_nowait = swallow  # type: ignore[method-assign,assignment]
    assert await asyncio.gather(*(lookups.find(key) for key in ("k", "none"))) == [b"record", None]
    assert swallowed == [f"$JS.API.DIRECT.GET.KV_{prefix}"] * 2


async def test_a_caller_that_leaves_takes_no_other_along(jetstream: JetStream, prefix: str) -> None:
    await WriteOnceKv(jetstream, prefix).create("k", b"record")
    lookups = BatchedKvReader(jetstream, prefix)
    asked = [lookups.find("k") for _ in range(3)]
    asked[0].cancel()
    assert await asyncio.gather(*asked[1:]) == [b"record"] * 2


async def test_large_records_come_in_several_replies(
    jetstream: JetStream, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sent them all at once would cut the connection; one that is larger than a
    reply's limit comes all the same.
    """
    # on a busy machine a reply may take a quarter of a second
    monkeypatch.setattr(batched_reader, "AGAIN_AFTER_S", 3600.0)
    records, sizes = (
        WriteOnceKv(jetstream, prefix),
        {
            "a": MAX_REPLY_BYTES // 2,
            "b": MAX_REPLY_BYTES + 1000,
            "c": MAX_REPLY_BYTES // 2,
            "d": 10,
            "e": MAX_REPLY_BYTES,
        },
    )
    for key, size in sizes.items():
        await records.create(key, bytes(size))
    lookups, subject = BatchedKvReader(jetstream, prefix), f"$JS.API.DIRECT.GET.KV_{prefix}"
    asked: list[str] = []
    post = jetstream.connection.publish_nowait
    jetstream.connection.publish_nowait = lambda to, *rest: asked.append(to) or post(to, *rest)  # type: ignore[method-assign,func-returns-value]
    found = await asyncio.gather(*(lookups.find(key) for key in (*sizes, "missing")))
    assert [one and len(one) for one in found] == [*sizes.values(), None]
    assert 1 < asked.count(subject) <= len(sizes) + 1


@pytest.fixture
async def lagging(nats_url: str, prefix: str) -> AsyncIterator[JetStream]:
    """A JetStream with three copies. Its direct gets are answered by one that has nothing yet, its
    other requests by the server.
    """
    async with connected(nats_url) as server, connected(nats_url) as connection:
        none = head_of({"Status": "404"}).replace(
            b"NATS/1.0\r\nStatus: 404", b"NATS/1.0 404 No Results"
        )
        api = JetStream(connection, domain=prefix)
        await server.subscribe_direct(
            f"{api.prefix}.DIRECT.GET.>",
            lambda _, inbox, *__: server.publish_nowait(inbox, b"", "", none),
        )

        def pass_on(subject: str, inbox: str, data: bytes, _headers: Headers | None) -> None:
            if ".INFO." in subject:
                server.publish_nowait(inbox, b'{"config": {"num_replicas": 3}}')
            else:
                server.publish_nowait(subject.replace(api.prefix, "$JS.API"), data, inbox)

        await server.subscribe_direct(f"{api.prefix}.STREAM.>", pass_on)
        await server.flush()
        yield api


async def test_what_a_lagging_copy_does_not_have_is_asked_of_the_leader(
    lagging: JetStream, jetstream: JetStream, prefix: str
) -> None:
    """Its "none" must not decide: a healthy result would be a dead letter, or pass unchecked."""
    await WriteOnceKv(jetstream, prefix).create("k", b"record")
    assert await BatchedKvReader(lagging, prefix).find("k") == b"record"
    assert await BatchedKvReader(lagging, prefix).find("absent") is None
    await jetstream.publish(f"$KV.{prefix}.k", b"", {"KV-Operation": "DEL"})
    assert await BatchedKvReader(lagging, prefix).find("k") is None


async def test_a_leader_that_cannot_be_asked_decides_nothing(lagging: JetStream) -> None:
    with pytest.raises(BrokerUnavailable):
        await BatchedKvReader(lagging, "nowhere").find("k")


async def test_a_bucket_with_one_copy_is_not_asked_twice(jetstream: JetStream, prefix: str) -> None:
    reader = BatchedKvReader(jetstream, prefix)
    assert await reader.find("absent") is None
    asked: list[object] = []
    await until(lambda: reader._leader_reads._has_copies is False)
    jetstream.get = lambda *query: asked.append(query)  # type: ignore[method-assign,assignment,return-value]
    assert (
        await asyncio.gather(*(reader.find(f"absent-{number}") for number in range(10)))
        == [None] * 10
    )
    assert asked == []
