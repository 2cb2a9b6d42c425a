"""What every story may ask for: a nats-server of its own, and a plain nats-py client, as an author
of a gateway uses it.
"""

from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A server a story, not a module: `caf.exec.dlq.v1` belongs to one dead-letter stream, whatever
    the prefix.
    """
    broker = Broker().start()
    yield broker
    broker.remove()


@pytest.fixture
async def nc(nats_url: str) -> AsyncIterator[Client]:
    # back before the router says anything: an inbox keeps nothing
    client = await connect_patiently(nats_url, reconnect_time_wait=0.05)
    yield client
    await client.close()
