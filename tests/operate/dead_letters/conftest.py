"""Streams that dead letters are sent back to, on the module's server."""

import pytest

from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from tests.support.dead_letters import DeadLetterStreams


@pytest.fixture
def jetstream(connection: Connection) -> JetStream:
    return JetStream(connection)


@pytest.fixture
async def house(jetstream: JetStream, prefix: str) -> DeadLetterStreams:
    return await DeadLetterStreams(jetstream, prefix).build()
