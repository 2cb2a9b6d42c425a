"""One server with the roles of deploy/nats, its streams made by the operator's own command."""

import asyncio
from collections.abc import Iterator

import pytest

from tests.support.deployed import Deployed


@pytest.fixture(scope="module")
def deployed() -> Iterator[Deployed]:
    deployed = Deployed().start()
    try:
        asyncio.run(deployed.make_topology())
        yield deployed
    finally:
        deployed.remove()
