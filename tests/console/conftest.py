"""A broker with a router's topology, for the pages of a console. Without the extra only
`test_extra` is collected, and says so.
"""

from collections.abc import AsyncIterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from router.config import Settings
from router.config.connect import connect_by
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.operate.topology.declared_topology import declare_topology
from tests.support.broker import Broker
from tests.support.made_anew import delete_streams, make_anew
from tests.support.patient_client import PATIENCE_S

if TYPE_CHECKING:
    from tests.support.console import Console

HERE = Path(__file__).parent
IS_INSTALLED = all(
    find_spec(name) is not None for name in ("jinja2", "sse_starlette", "argon2", "itsdangerous")
)
collect_ignore = (
    []
    if IS_INSTALLED
    else [file.name for file in HERE.glob("test_*.py") if file.name != "test_extra.py"]
)


@pytest.fixture(scope="module")
def settings(broker: Broker) -> Settings:
    from tests.support.console import console_settings

    return console_settings(broker.url, console__warehouse="/nonexistent/warehouse")


@pytest.fixture
async def jetstream(settings: Settings) -> AsyncIterator[JetStream]:
    """The topology of a router, made for one test: sequences begin at 1."""
    connection: Connection = await connect_by(settings.nats)
    jetstream = JetStream(connection, timeout_s=PATIENCE_S)
    wanted = declare_topology(settings)
    await make_anew(jetstream, wanted)
    yield jetstream
    await delete_streams(jetstream, (spec.name for spec in wanted.streams))
    await connection.close()


@pytest.fixture
async def console(settings: Settings, jetstream: JetStream) -> AsyncIterator["Console"]:
    """Hears the router's events; who has the admin key may write."""
    from tests.support.console import a_console
    from tests.support.console_login import writing
    from tests.support.waiting import until

    async with a_console(writing(settings.nats.url[0])) as running:
        await until(lambda: running.server.link.hears_since is not None)
        yield running
