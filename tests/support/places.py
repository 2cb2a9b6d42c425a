"""Two places, each with a JetStream domain of its own, and a connection that only replication passes (docs/two-places.md).

hub, domain "hub" ──(leaf node connection, deploy/nats/second-place.conf, through a proxy)── second, domain "second"
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from router.config import Settings, load
from tests.faults.proxy import Proxy
from tests.support.broker import Broker
from tests.support.cluster import free_ports

CONNECTION = Path("deploy/nats/second-place.conf").read_text()
HUB, SECOND = "hub", "second"


class Places:
    """`way`: to the hub's port for leaf nodes."""

    def __init__(self, hub: Broker, second: Broker, way: Proxy) -> None:
        self.hub = hub
        self.second = second
        self.way = way

    def restart_second(self) -> None:
        """As the page says after a promotion."""
        self.second.stop()
        self.second.start()


@asynccontextmanager
async def two_places(*, denies: bool = True) -> AsyncIterator[Places]:
    """`denies`: the connection is as it is shipped; False: a plain one, which passes every subject."""
    async with AsyncExitStack() as stack:
        (port,) = free_ports(1)
        hub = _start(stack, HUB, f'leafnodes {{ listen: "127.0.0.1:{port}", no_advertise: true }}')
        way = await Proxy(port).start()
        stack.push_async_callback(way.close)
        connection = CONNECTION if denies else "leafnodes { remotes [ { url: $HUB_LEAF_URL } ] }"
        yield Places(hub, _start(stack, SECOND, f"HUB_LEAF_URL: {json.dumps(way.url)}", connection), way)


def settings_at(broker: Broker, **overrides: object) -> Settings:
    """A router with the names that it has by default: the connection knows those."""
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    return load(None, {"nats.url": broker.url, "http.port": 0, **given}, {}).settings


def _start(stack: AsyncExitStack, domain: str, *lines: str) -> Broker:
    store = stack.enter_context(tempfile.TemporaryDirectory(prefix="router-test-"))
    broker = Broker(f"jetstream {{ store_dir: {json.dumps(store)}, domain: {domain} }}", *lines, jetstream=False).start()
    stack.callback(broker.remove)
    return broker
