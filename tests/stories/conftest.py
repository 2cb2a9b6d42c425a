"""What every story may ask for: a nats-server of its own, and a plain nats-py client, as an author
of a gateway uses it; settings of a router.
"""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from nats.aio.client import Client

from router import Client as Gateway
from router.config import Settings
from tests.support.broker import Broker
from tests.support.extension_pipeline import PipelinePlace
from tests.support.patient_client import connect_patiently
from tests.support.service import Running, settings_for


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    """A server a story, not a module: `caf.exec.dlq.v1` belongs to one dead-letter stream, whatever
    the prefix.
    """
    return own_broker


@pytest.fixture
async def nc(nats_url: str) -> AsyncIterator[Client]:
    # back before the router says anything: an inbox keeps nothing
    async with await connect_patiently(nats_url, reconnect_time_wait=0.05) as client:
        yield client


@pytest.fixture
def settings(nats_url: str, prefix: str) -> Settings:
    """A router's, on names of the test's own."""
    return settings_for(nats_url, prefix)


@pytest.fixture
def at(nats_url: str, prefix: str, tmp_path: Path) -> PipelinePlace:
    return PipelinePlace(nats_url, prefix, tmp_path)


@pytest.fixture
async def client(router: Running, nats_url: str) -> AsyncIterator[Gateway]:
    """A gateway of a story that has a router."""
    async with Gateway(nats_url) as client:
        yield client
