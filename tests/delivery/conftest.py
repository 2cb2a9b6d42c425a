"""Streams of a test's own, on the module's server."""

from collections.abc import AsyncIterator

import pytest

from tests.support.delivery import WorkStreams, some_work_streams


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkStreams]:
    async with some_work_streams(nats_url, prefix) as place:
        yield place
