"""The groups of copies that have a leader each: streams, buckets, durables, and the cluster itself.
Who leads, and step-downs.

Their names are the same in every run, so that a fault can be named after the leader that it hits.
"""

import asyncio
import contextlib
import json
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

import nats.errors
from nats.aio.client import Client

from router.config import load
from router.operate.topology.declared_topology import declare_topology
from tests.rigs.faults.cluster.servers import Servers, is_current, number_of
from tests.rigs.faults.quiet import WORKERS

ANSWER_S = 2.0
FIND_EVERY_S = 0.2
FIND_WITHIN_S = 30.0
META = "the cluster"


class Group(NamedTuple):
    """`stream` is META for the cluster itself; `consumer` is empty for a stream."""

    stream: str
    consumer: str = ""

    @property
    def name(self) -> str:
        return self.consumer or self.stream


@cache
def list_groups() -> tuple[Group, ...]:
    """Every stream, bucket and durable of the routers, the workers' durable, and the cluster."""
    settings = load(None, {}, {}).settings
    topology = declare_topology(settings)
    streams = tuple(Group(stream.name) for stream in topology.streams)
    durables = tuple(Group(consumer.stream, consumer.durable) for consumer in topology.consumers)
    return (*streams, *durables, Group(settings.streams.assignments.name, WORKERS), Group(META))


async def find_leader(client: Callable[[], Client], servers: Servers, group: Group) -> int:
    """The number of the server that leads it. RuntimeError when none does for long."""
    deadline = asyncio.get_running_loop().time() + FIND_WITHIN_S
    while asyncio.get_running_loop().time() < deadline:
        if (leader := await _read_leader(client(), servers, group)) is not None:
            return leader
        await asyncio.sleep(FIND_EVERY_S)
    raise RuntimeError(f"{group.name} has no leader for {FIND_WITHIN_S:g} s")


async def list_behind(client: Client, servers: Servers, groups: Sequence[Group]) -> list[str]:
    """Those of these groups, and of the cluster, without a leader, or with a copy that does not
    follow it, and why.
    """
    groups = [group for group in groups if group.stream != META]
    infos = await asyncio.gather(*(_read(client, group) for group in groups))
    behind = [
        f"{group.name} ({_describe(info)})"
        for group, info in zip(groups, infos, strict=True)
        if not is_current(info)
    ]
    return behind if await servers.is_meta_current() else [META, *behind]


def _describe(info: dict[str, Any]) -> str:
    if not info.get("leader"):
        return "no leader" if info else "no answer"
    late = [one for one in info.get("replicas") or [] if not one["current"] or one.get("offline")]
    return f"{info['leader']} leads, " + ", ".join(
        f"{one['name']} lags by {one.get('lag', 0)}" for one in late
    )


async def step_down(client: Client, servers: Servers, group: Group) -> None:
    """Its leader gives its place to a follower, if it has one."""
    if group.stream == META:
        await servers.step_down_meta()
        return
    kind, name = (
        ("CONSUMER", f"{group.stream}.{group.consumer}")
        if group.consumer
        else ("STREAM", group.stream)
    )
    with contextlib.suppress(nats.errors.Error):
        await client.request(f"$JS.API.{kind}.LEADER.STEPDOWN.{name}", b"", timeout=ANSWER_S)


async def _read_leader(client: Client, servers: Servers, group: Group) -> int | None:
    if group.stream == META:
        return await servers.find_meta_leader()
    leader = (await _read(client, group)).get("leader")
    return number_of(leader) if leader else None


async def _read(client: Client, group: Group) -> dict[str, Any]:
    """What the server tells about its copies; nothing if none answers."""
    subject = (
        f"CONSUMER.INFO.{group.stream}.{group.consumer}"
        if group.consumer
        else f"STREAM.INFO.{group.stream}"
    )
    with contextlib.suppress(nats.errors.Error):
        answer = json.loads(
            (await client.request(f"$JS.API.{subject}", b"", timeout=ANSWER_S)).data
        )
        return dict(answer.get("cluster") or {})
    return {}
