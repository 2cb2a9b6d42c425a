"""A router on a cluster of three servers: one setting says the copies, and a server that dies is a matter of seconds."""

from collections.abc import Iterator
from contextlib import suppress

import nats
import pytest
from nats.aio.client import Client
from nats.errors import Error as NatsError

from router.app import declare_topology
from router.config import Settings
from router.delivery.api import JetStream
from router.delivery.topology import apply
from tests.support.cluster import Cluster, started_cluster, wait_for_cluster
from tests.support.delivery import connected
from tests.support.router_streams import read_assignments
from tests.support.service import a_router, settings_for
from tests.support.stories import a_request, ask
from tests.support.waiting import until


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with started_cluster() as cluster:
        yield cluster


async def test_the_copies_of_living_streams_and_buckets_are_changed(cluster: Cluster, prefix: str) -> None:
    await wait_for_cluster(cluster)
    async with connected(cluster.servers[0].url) as connection:
        jetstream = JetStream(connection)
        for copies in (1, 3):
            wanted = declare_topology(settings_for(cluster.url, prefix, replicas=copies))
            await apply(jetstream, wanted)
            infos = [await jetstream.stream(stream.name) for stream in wanted.streams]
            assert {info["config"]["num_replicas"] for info in infos if info is not None} == {copies}
            assert None not in infos


async def test_a_request_is_decided_pushed_and_stored_whichever_server_dies(cluster: Cluster, prefix: str) -> None:
    """The server that leads the requests' stream is killed; every request is answered, each assignment is stored once."""
    await wait_for_cluster(cluster)
    settings = settings_for(cluster.url, prefix, replicas=3)
    async with a_router(settings), connected(cluster.servers[0].url) as operator:
        client = await nats.connect([server.url for server in cluster.servers], reconnect_time_wait=0.05)
        assert (await ask(client, settings, a_request("before", push_assignment=True)))["ok"] is True

        info = await JetStream(operator).stream(settings.streams.decide.name)
        assert info is not None
        leader = cluster.find(info["cluster"]["leader"])
        leader.kill()
        await until(lambda: _is_pushed(client, settings), within_s=60)
        leader.start()
        assert len(await read_assignments(client, settings)) == 2
        await client.close()


async def _is_pushed(client: Client, settings: Settings) -> bool:
    """Whether the request was answered within two seconds; it is the same request each time."""
    with suppress(NatsError, TimeoutError):
        answer = await ask(client, settings, a_request("meanwhile", push_assignment=True), timeout_s=2.0)
        assert answer["ok"] is True
        return True
    return False
