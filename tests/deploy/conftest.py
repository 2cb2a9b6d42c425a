"""One server with the roles of deploy/nats, its streams made by the operator's own command."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
from nats.aio.client import Client

from tests.support.deployed import WITNESS, Deployed


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    with Deployed() as deployed:
        asyncio.run(deployed.make_topology())
        yield deployed


@pytest.fixture
async def witness(deployed: Deployed) -> AsyncIterator[Client]:
    async with await deployed.connect(WITNESS) as client:
        yield client
