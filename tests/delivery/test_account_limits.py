"""A limit of the account or of the server is named by the server's own words."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from router.core.errors import BrokerUnavailable, LoginRefused
from router.delivery.wire.connection import Connection
from router.delivery.wire.denials import find_limit
from router.delivery.wire.first_connection import connect
from router.delivery.wire.stuck import LIMIT_LATELY_S, watch_connections
from router.process.supervision import SupervisionFailed
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.waiting import until


def test_only_the_words_of_a_limit_are_taken_from_an_error_line() -> None:
    assert find_limit("'maximum subscriptions exceeded'") == "maximum subscriptions exceeded"
    assert (
        find_limit("'Maximum Account Active Connections Exceeded'")
        == "maximum account active connections exceeded"
    )
    assert find_limit("'maximum payload violation'") is None
    assert find_limit("'permissions violation for publish to \"a.b\"'") is None


@asynccontextmanager
async def one_too_many_subscriptions() -> AsyncIterator[tuple[Connection, list[str]]]:
    """A connection that the server has refused some, and what was told of that."""
    with Broker("max_subscriptions: 2") as broker:
        async with connected(broker.url) as connection:
            told: list[str] = []
            connection.on_limit = told.append
            for number in range(4):
                await connection.subscribe(f"a.{number}")
            await until(lambda: told)
            yield connection, told


async def test_too_many_subscriptions_are_told_once_in_the_servers_words() -> None:
    async with one_too_many_subscriptions() as (connection, told):
        connection.on_error_line("-ERR 'maximum subscriptions exceeded'")
        assert told == ["maximum subscriptions exceeded"]


async def test_too_many_connections_are_no_missing_server() -> None:
    limited = "accounts { A { users: [ {user: a, password: p} ], limits { max_connections: 1 } } }"
    with Broker(limited) as broker:
        async with connected(broker.url, user="a", password="p"):
            with pytest.raises(
                BrokerUnavailable, match="maximum account active connections exceeded"
            ) as refused:
                await connect({"servers": [broker.url], "user": "a", "password": "p"})
    assert "start it" not in str(refused.value)


async def test_a_limit_is_told_also_where_later_tries_end_without_a_word() -> None:
    """A server that closes a connection may reset it before its words are read."""
    tries = 0

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal tries
        tries += 1
        writer.write(b'INFO {"auth_required":true,"max_payload":1048576}\r\n')
        await reader.readuntil(b"PING\r\n")
        if tries == 1:
            writer.write(b"-ERR 'maximum account active connections exceeded'\r\n")
            await writer.drain()
            writer.close()
        else:  # with a reset
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        options = {"servers": [f"nats://127.0.0.1:{port}"], "user": "a", "password": "p"}
        with pytest.raises(BrokerUnavailable, match="connections exceeded") as refused:
            await connect({**options, "reconnect_time_wait": 0.01}, timeout_s=2.0)
    assert tries > 1
    assert not isinstance(refused.value, LoginRefused)


async def test_the_end_of_a_process_is_told_by_a_limit_that_was_enforced_just_before() -> None:
    """ "consumer ended too often" names the child alone."""
    async with one_too_many_subscriptions() as (connection, _):
        with pytest.raises(
            BrokerUnavailable,
            match=r"maximum subscriptions exceeded: raise it .*consumer ended too often",
        ):
            async with watch_connections(connection):
                raise SupervisionFailed("router", "consumer")
        connection.limited_at -= 2 * LIMIT_LATELY_S
        with pytest.raises(SupervisionFailed):
            async with watch_connections(connection):
                raise SupervisionFailed("router", "consumer")
