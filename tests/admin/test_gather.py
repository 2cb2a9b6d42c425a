"""Asking every instance: the first that knows wins."""

import asyncio
from collections.abc import AsyncIterator

import orjson
import pytest

from router.admin.gather import Peers
from router.delivery.connection import Connection, connect


@pytest.fixture
async def connection(nats_url: str) -> AsyncIterator[Connection]:
    connection = await connect({"servers": [nats_url]})
    yield connection
    await connection.close()


async def answering(connection: Connection, subject: str, *answers: bytes) -> None:
    """One peer for each answer."""
    for answer in answers:
        await connection.attend(subject, lambda _s, reply, _d, _h, answer=answer: connection.post(reply, answer))  # type: ignore[misc]


async def test_the_one_that_knows_wins_over_those_that_do_not(connection: Connection, prefix: str) -> None:
    await answering(connection, prefix, b'{"ok":false}', b"no json", b"[]", b'{"ok":true,"a":1}')
    assert await Peers(connection, {}, 5.0).first(prefix, {}) == {"ok": True, "a": 1}


async def test_when_nobody_knows_it_takes_no_longer_than_it_may(connection: Connection, prefix: str) -> None:
    await answering(connection, prefix, b'{"ok":false}')
    began = asyncio.get_running_loop().time()
    assert await Peers(connection, {}, 0.05).first(prefix, {}) is None
    assert asyncio.get_running_loop().time() - began < 1


async def test_the_question_and_the_key_go_along(connection: Connection, prefix: str) -> None:
    heard: list[tuple[bytes, object]] = []

    def hear(_subject: str, reply: str, data: bytes, headers: dict[str, str] | None) -> None:
        heard.append((data, headers))
        connection.post(reply, b'{"ok":true}')

    await connection.attend(prefix, hear)
    await Peers(connection, {"api_key": "sesame"}, 5.0).first(prefix, {"tenant_id": "acme"})
    assert heard == [(orjson.dumps({"tenant_id": "acme"}), {"api_key": "sesame"})]


async def test_its_inbox_is_left_behind_empty(connection: Connection, prefix: str) -> None:
    before = len(connection.hears)
    await Peers(connection, {}, 0.01).first(prefix, {})
    assert len(connection.hears) == before
