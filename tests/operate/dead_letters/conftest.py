"""A connection to the module's server."""

from collections.abc import AsyncIterator

import pytest

from router.delivery.wire.api import JetStream
from router.delivery.wire.first_connection import connect
from tests.support.dead_letters import DeadLetterStreams


@pytest.fixture
async def jetstream(nats_url: str) -> AsyncIterator[JetStream]:
    connection = await connect({"servers": [nats_url]})
    yield JetStream(connection)
    await connection.close()


@pytest.fixture
async def house(jetstream: JetStream, prefix: str) -> DeadLetterStreams:
    return await DeadLetterStreams(jetstream, prefix).build()
