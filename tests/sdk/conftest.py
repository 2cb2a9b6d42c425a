"""What the tests of the SDK share."""

from collections.abc import AsyncIterator, Iterator

import pytest

from tests.support.extension_author import ExtensionClient, an_extension_client
from tests.support.observability import LogLines, capture_log
from tests.support.sdk import WorkerStreams, some_worker_streams


@pytest.fixture
def lines() -> Iterator[LogLines]:
    """The log's lines, whatever an earlier test configured."""
    with capture_log() as lines:
        yield lines


@pytest.fixture
async def place(nats_url: str, prefix: str) -> AsyncIterator[WorkerStreams]:
    async with some_worker_streams(nats_url, prefix) as place:
        yield place


@pytest.fixture
async def asker(nats_url: str) -> AsyncIterator[ExtensionClient]:
    async with an_extension_client(nats_url) as asker:
        yield asker
