"""A server of its own for each cell: some subjects and names of streams are fixed."""

from collections.abc import AsyncIterator

import pytest
from nats.aio.client import Client

from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently


@pytest.fixture
async def own_nc(own_broker: Broker) -> AsyncIterator[Client]:
    async with await connect_patiently(own_broker.url) as client:
        yield client
