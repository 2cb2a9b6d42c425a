"""A bus of the test's own, on the module's server."""

from collections.abc import AsyncIterator

import pytest

from router.sdk.bus import Bus
from tests.support.bus import a_bus


@pytest.fixture
async def bus(nats_url: str, prefix: str) -> AsyncIterator[Bus]:
    async with a_bus(nats_url, prefix) as bus:
        yield bus
