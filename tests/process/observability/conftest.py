"""One live scrape for all that is held against it."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from router.decide.partitions import monitor
from router.operate.dead_letters import depth
from tests.support.broker import Broker
from tests.support.postgres import Postgres
from tests.support.scraping import (
    Series,
    agent_series,
    gateway_series,
    mailbox_series,
    partition_series,
    router_series,
)


@pytest.fixture(scope="session")
def live(
    tmp_path_factory: pytest.TempPathFactory, postgres_of: Callable[[int], Postgres]
) -> Iterator[Series]:
    """Every series of a router, a gateway, a relay, an inbox and an agent, each after a little
    work.
    """
    with Broker() as broker:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(depth, "DEPTH_EVERY_S", 0.05)
            patch.setattr(monitor, "PARTITIONS_EVERY_S", 0.05)
            series = asyncio.run(
                _everything(broker.url, postgres_of(18), tmp_path_factory.mktemp("live"))
            )
        yield series  # here the intervals are a router's own again, for the session's other tests


async def _everything(url: str, postgres: Postgres, home: Path) -> Series:
    routers = [await router_series(url, home), await partition_series(url, home)]
    pages = [
        *routers,
        await gateway_series(url, home),
        await mailbox_series(url, await postgres.database()),
        await agent_series(url, home),
    ]
    return {
        name: [labels for page in pages for labels in page.get(name, [])]
        for page in pages
        for name in page
    }
