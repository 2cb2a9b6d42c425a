"""An empty bucket of the test's name, whose records live for a minute."""

import pytest

from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.topology import Topology, bucket, create


@pytest.fixture
async def jetstream(connection: Connection, prefix: str) -> JetStream:
    jetstream = JetStream(connection)
    await create(jetstream, Topology((bucket(prefix, ttl=60),)))
    return jetstream
