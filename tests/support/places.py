"""Two places, each with a JetStream domain of its own, and a connection that only replication
passes (docs/how-to/two-places.md).

hub, domain "hub" ──(leaf node connection, deploy/nats/second-place.conf, through a proxy)── second: a server, or a cluster of three
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from nats.aio.client import Client
from nats.errors import Error as NatsError

from router.config import Settings, load
from router.operate.recovery.recovery_order import list_in_order
from tests.support.broker import Broker
from tests.support.cli import CommandResult, call_command_async
from tests.support.cluster import Cluster, started_cluster, wait_for_cluster
from tests.support.patient_client import connect_patiently
from tests.support.ports import free_port
from tests.support.proxy import Proxy
from tests.support.waiting import until

PAGE = Path("docs/how-to/two-places.md").read_text()
CONNECTION = Path("deploy/nats/second-place.conf").read_text()
HUB, SECOND, LEAF = "hub", "second", "leaf"

Place = Broker | Cluster


class Places:
    """`way`: to the hub's port for leaf nodes."""

    def __init__(self, hub: Broker, second: Place, way: Proxy) -> None:
        self.hub = hub
        self.second = second
        self.way = way

    async def restart_second(self) -> None:
        """All of its servers, as the page says after a promotion."""
        self.second.stop()
        self.second.start()
        if isinstance(self.second, Cluster):
            await wait_for_cluster(self.second)


@asynccontextmanager
async def two_places(
    *, domain: str = SECOND, is_cluster: bool = False, denies: bool = True
) -> AsyncIterator[Places]:
    """`domain`, `is_cluster`: the second place; `denies`: the connection is as it is shipped;
    False: a plain one passes every subject.
    """
    async with AsyncExitStack() as stack:
        port = free_port()
        hub = _start(stack, HUB, f'leafnodes {{ listen: "127.0.0.1:{port}", no_advertise: true }}')
        way = await Proxy(port).start()
        stack.push_async_callback(way.close)
        connection = CONNECTION if denies else "leafnodes { remotes [ { url: $HUB_LEAF_URL } ] }"
        lines = (f"HUB_LEAF_URL: {json.dumps(way.url)}", connection)
        if is_cluster:
            cluster = stack.enter_context(started_cluster(lines=lines, domain=domain))
            await wait_for_cluster(cluster)
            second: Place = cluster
        else:
            second = _start(stack, domain, *lines)
        async with client_at(second) as client:
            await until(lambda: can_reach_hub(client), what="the second place has joined the hub")
        yield Places(hub, second, way)


async def can_reach_hub(client: Client) -> bool:
    try:
        await client.request(f"$JS.{HUB}.API.INFO", timeout=1)
    except NatsError:
        return False
    return True


def settings_at(place: Place, **overrides: object) -> Settings:
    """A router with the names that it has by default: the connection knows those."""
    given = {name.replace("__", "."): value for name, value in overrides.items()}
    copies = 3 if isinstance(place, Cluster) else 1
    return load(
        None, {"nats.url": place.url, "http.port": 0, "replicas": copies, **given}, {}
    ).settings


@asynccontextmanager
async def client_at(place: Place) -> AsyncIterator[Client]:
    async with await connect_patiently(place.url.split(","), reconnect_time_wait=0.05) as client:
        yield client


async def is_mirrored(hub: Client, second: Client, settings: Settings) -> bool:
    """Whether every message of the hub is in its mirror."""
    names = [spec.name for spec in list_in_order(settings)]
    return all([await _last(hub, name) == await _last(second, name) for name in names])


async def type_command(place: Place, *words: str) -> CommandResult:
    """`router …` in one place."""
    copies = {"ROUTER_REPLICAS": "3"} if isinstance(place, Cluster) else {}
    return await call_command_async(*words, "--nats-url", place.url, environ=copies)


async def type_commands(place: Place, *commands: Sequence[str]) -> None:
    """One after the other; each must succeed."""
    for words in commands:
        done = await type_command(place, *words)
        assert done.status == 0, done.err


async def _last(nc: Client, stream: str) -> int:
    return (await nc.jsm().stream_info(stream)).state.last_seq


def _start(stack: AsyncExitStack, domain: str, *lines: str) -> Broker:
    broker = Broker(*lines, domain=domain).start()
    stack.callback(broker.remove)
    return broker
