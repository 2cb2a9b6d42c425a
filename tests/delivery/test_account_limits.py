"""A limit of the account or of the server is named by the server's own words."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from router.core.errors import BrokerUnavailable
from router.delivery.wire.connection import Connection
from router.delivery.wire.denials import find_limit
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
                async with connected(broker.url, user="a", password="p"):
                    pass
    assert "start it" not in str(refused.value)


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
