"""Reads the facts from a server. Read-only: it creates and changes nothing, and pulls no message
from a consumer.

`read_servers` stands first: the facts of a server itself. `collect` reads them, and those of the
account, its streams and its consumers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import urlopen

import nats.errors
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.config import Settings
from router.core.clock import wall
from router.core.errors import (
    BrokerRefused,
    BrokerUnavailable,
    Misconfigured,
    NoLeader,
    PermissionDenied,
    RouterError,
)
from router.core.ids import bucket_prefix
from router.decide.partitions.partition_lease import lease_key, read_lease, standby_key
from router.delivery.wire.api import STREAM_NOT_FOUND, JetStream, Json, StoredMessage, nanos
from router.delivery.wire.server_state import describe_pause
from router.delivery.wire.topology import NANOS_PER_S, ConsumerSpec, StreamSpec, Topology, compare
from router.operate.doctor.facts import (
    AccountCount,
    ConsumerFacts,
    Facts,
    Follower,
    Origin,
    PartitionFacts,
    RaftGroup,
    ServerFacts,
    ServerStorage,
    StreamFacts,
    SyncMode,
    ViolationFacts,
)
from router.operate.topology.declared_topology import list_partitions, partition_stream

# -- All facts.

T = TypeVar("T")
EARLIER_BUCKETS = ("ROUTER_STARTS",)  # of versions before this one


class _Unread(Struct):
    """Why some streams and consumers could not be read."""

    names: list[str] = []
    denied: list[str] = []
    without_leader: list[str] = []


async def collect(
    jetstream: JetStream,
    topology: Topology,
    *,
    letters: str,
    max_request: int,
    cleaned_stream: str = "",
    monitors: Sequence[str] = (),
    asks_server: bool = True,
    partitioned: Settings | None = None,
    read_violations: Callable[[], Awaitable[ViolationFacts]] | None = None,
) -> Facts:
    """All facts that `checks` need. `monitors`: the URLs of the servers' monitoring ports; without
    them the connected server is asked.

    `asks_server` False: it is not, because a server logs a violation of an ordinary account that
    asks.

    Raises BrokerUnavailable if the server stops answering. A server without JetStream, a cluster
    without a quorum, a stream without a leader, or a missing permission, is a finding, not an
    error.
    """
    server = await _server(jetstream, monitors, asks_server=asks_server)
    if not (server.has_jetstream and server.has_quorum):
        return Facts(now=wall(), server=server, max_request=max_request)
    unread = _Unread(denied=[server.why_not] if server.why_not else [])
    streams = await asyncio.gather(
        *(_note_unread(_stream(jetstream, spec), spec.name, unread) for spec in topology.streams)
    )
    consumers = await asyncio.gather(
        *(
            _note_unread(_consumer(jetstream, spec), spec.durable, unread)
            for spec in topology.consumers
        )
    )
    readable = _leave_out(topology, unread)
    return Facts(
        denied=tuple(unread.denied),
        declared=readable.streams,
        without_leader=tuple(unread.without_leader),
        now=wall(),
        server=server,
        max_request=max_request,
        streams=tuple(stream for stream in streams if stream is not None),
        consumers=tuple(consumer for consumer in consumers if consumer is not None),
        partitions=tuple(
            await _note_unread(list_partition_facts(jetstream, partitioned), "", _Unread()) or ()
        )
        if partitioned
        else (),
        lease=partitioned.decide.lease_s if partitioned else 0.0,
        differences=tuple(await _note_unread(compare(jetstream, readable), "", _Unread()) or ()),
        violations=await _note_unread(read_violations(), "", _Unread())
        if read_violations is not None
        else None,
        left_over=tuple(
            [
                name
                for name in EARLIER_BUCKETS
                if await _note_unread(_is_left_over(jetstream, name, topology), "", _Unread())
            ]
        ),
        dead_letters=letters,
        cleaned_stream=cleaned_stream,
    )


async def _server(
    jetstream: JetStream, monitors: Sequence[str], *, asks_server: bool
) -> ServerFacts:
    connection = jetstream.connection
    version = connection.connected_server_version
    servers = (
        await read_servers(jetstream, monitors) if monitors or asks_server else ServerStates(())
    )
    facts = ServerFacts(
        version=(version.major, version.minor, version.patch),
        has_jetstream=True,
        max_payload=connection.max_payload,
        is_clustered=bool(connection._server_info.get("cluster")),
        sync=find_sync_mode(servers.states),
        storage=tuple(filter(None, map(read_storage, servers.states))),
        unread=servers.unread,
    )
    return await _ask_account(jetstream, facts)


async def _ask_account(jetstream: JetStream, facts: ServerFacts) -> ServerFacts:
    """A user without permission for the account's figures may still read its streams."""
    try:
        account = await jetstream.account()
    except NoLeader:
        return replace(facts, has_quorum=False)
    except PermissionDenied as exc:
        return replace(facts, why_not=str(exc))
    except (BrokerUnavailable, BrokerRefused) as exc:
        return replace(facts, has_jetstream=False, why_not=str(exc))
    limits = account["limits"]
    kinds = ("streams", "consumers")
    counts = tuple(
        AccountCount(kind, account.get(kind, 0), limits.get(f"max_{kind}", -1)) for kind in kinds
    )
    reserved = account.get("reserved_storage", 0)
    return replace(
        facts, account_limit=limits["max_storage"], account_reserved=reserved, account_counts=counts
    )


async def _note_unread(reading: Awaitable[T], name: str, unread: _Unread) -> T | None:
    """The result; None if the server denies it, or the stream has no leader: then `unread` says so."""
    try:
        return await reading
    except PermissionDenied as exc:
        unread.denied.append(str(exc))
    except NoLeader:
        unread.without_leader.append(name)
    unread.names.append(name)
    return None


def _leave_out(topology: Topology, unread: _Unread) -> Topology:
    """The topology without what could not be read: an answer that does not come costs seconds."""
    absent = set(unread.names)
    streams = tuple(stream for stream in topology.streams if stream.name not in absent)
    return Topology(
        streams,
        tuple(
            consumer
            for consumer in topology.consumers
            if not {consumer.stream, consumer.durable} & absent
        ),
    )


async def _stream(jetstream: JetStream, spec: StreamSpec) -> StreamFacts | None:
    info = await jetstream.stream(spec.name)
    if info is None:
        return None
    config, state = info["config"], info["state"]
    recent = await _newest_tenth(jetstream, spec.name, state)
    return StreamFacts(
        spec=spec,
        messages=state["messages"],
        size=state["bytes"],
        max_bytes=config.get("max_bytes", -1),
        max_age=config.get("max_age", 0) / NANOS_PER_S,
        duplicate_window=config.get("duplicate_window", 0) / NANOS_PER_S,
        discard=config.get("discard", "old"),
        replicas=config.get("num_replicas", 1),
        group=read_group(info.get("cluster")),
        origins=tuple(_read_origins(info)),
        first_sequence=state["first_seq"],
        last_sequence=state["last_seq"],
        first_at=_seconds(state.get("first_ts")) if state["messages"] else None,
        recent_sequence=recent.sequence if recent is not None else None,
        recent_at=_seconds(recent.time) if recent is not None else None,
        last_at=_seconds(state.get("last_ts")) if state["messages"] else None,
    )


def _read_origins(info: Json) -> Iterator[Origin]:
    """The sources of a stream, and what it mirrors."""
    for origin in (*(info.get("sources") or ()), *filter(None, (info.get("mirror"),))):
        active = origin.get("active", -1)
        yield Origin(
            origin["name"],
            (origin.get("external") or {}).get("api", ""),
            active / NANOS_PER_S if active >= 0 else None,
        )


async def _is_left_over(jetstream: JetStream, bucket: str, topology: Topology) -> bool:
    stream = f"KV_{bucket}"
    return (
        all(spec.name != stream for spec in topology.streams)
        and await jetstream.stream(stream) is not None
    )


async def _newest_tenth(jetstream: JetStream, stream: str, state: Json) -> StoredMessage | None:
    """Its first message: from there on the rate is measured."""
    begin = state["last_seq"] - (state["last_seq"] - state["first_seq"]) // 10
    if not state["messages"] or begin >= state["last_seq"]:
        return None
    return await jetstream.get_next(stream, ">", begin)


async def _consumer(jetstream: JetStream, spec: ConsumerSpec) -> ConsumerFacts | None:
    info = await jetstream.consumer(spec.stream, spec.durable)
    if info is None:
        return None
    pending, unacknowledged = info["num_pending"], info["num_ack_pending"]
    oldest = None
    if pending or unacknowledged:
        oldest = await jetstream.get_next(
            spec.stream, spec.filter_subject or ">", info["ack_floor"]["stream_seq"] + 1
        )
    return ConsumerFacts(
        spec=spec,
        pending=pending,
        unacknowledged=unacknowledged,
        redelivered=info["num_redelivered"],
        waiting_pulls=info["num_waiting"],
        held_back=describe_pause(spec.stream, spec.durable, info),
        delivered_sequence=info["delivered"]["stream_seq"],
        oldest_sequence=oldest.sequence if oldest else None,
        oldest_at=_seconds(oldest.time) if oldest else None,
        group=read_group(info.get("cluster")),
    )


def _seconds(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None


# -- What only a server itself tells, by its monitoring port or to the system account: how often
# it flushes, and what its disk holds. An ordinary account sees its own streams and limits, and
# no server's.

MONITOR_TIMEOUT_S = 2.0


class ServerStates(Struct, frozen=True):
    """The state (`varz`) of each server that was read, and why the others were not."""

    states: Sequence[Json]
    unread: tuple[str, ...] = ()


async def read_servers(jetstream: JetStream, monitors: Sequence[str]) -> ServerStates:
    """Each server that has a monitoring port here; without one, the connected server, if this
    account may ask.

    Raises Misconfigured for what is no URL, BrokerUnavailable if no port answers: one of several
    may be of a server that is down.
    """
    if not monitors:
        return ServerStates(
            [state for state in [await _read_as_system_account(jetstream)] if state]
        )
    states: list[Json] = []
    failures: list[BrokerUnavailable] = []
    for url in monitors:
        try:
            states.append(_read_monitor(url))
        except BrokerUnavailable as exc:
            failures.append(exc)
    if not states:
        raise failures[0]
    return ServerStates(states, tuple(map(str, failures)))


async def _read_as_system_account(jetstream: JetStream) -> Json:
    """Empty for an ordinary account, which gets 'no responders' at once."""
    server_id = jetstream.connection._server_info.get("server_id")
    try:
        answer = await jetstream.connection.request(
            f"$SYS.REQ.SERVER.{server_id}.VARZ", timeout=0.5
        )
        return orjson.loads(answer.data).get("data", {})  # type: ignore[no-any-return]
    except (RouterError, nats.errors.Error, OSError, ValueError):
        return {}


def _read_monitor(url: str) -> Json:
    if urlsplit(url).scheme not in ("http", "https"):
        raise Misconfigured(
            "monitor", f"{url!r} should be an http or https URL, like http://127.0.0.1:8222"
        )
    try:
        with urlopen(f"{url.rstrip('/')}/varz", timeout=MONITOR_TIMEOUT_S) as answer:  # noqa: S310 - the scheme was looked at
            return orjson.loads(answer.read())  # type: ignore[no-any-return]
    except (OSError, ValueError) as exc:
        raise BrokerUnavailable(f"the monitoring port at {url} does not answer: {exc}") from exc


def find_sync_mode(servers: Sequence[Json]) -> SyncMode:
    """The slowest of the servers that were read: one that flushes late can lose what it
    acknowledged.
    """
    configs = [server.get("jetstream", {}).get("config", {}) for server in servers]
    modes = [_sync_mode(config) for config in configs]
    return max(
        modes, key=lambda mode: 0.0 if mode.is_always else mode.interval or 0.0, default=SyncMode()
    )


def _sync_mode(config: Json) -> SyncMode:
    interval = config.get("sync_interval")
    return SyncMode(
        interval / NANOS_PER_S if interval is not None else None, bool(config.get("sync_always"))
    )


def read_storage(server: Json) -> ServerStorage | None:
    """None: this server has no JetStream."""
    jetstream = server.get("jetstream", {})
    limit = jetstream.get("config", {}).get("max_storage")
    if limit is None:
        return None
    stats, meta = jetstream.get("stats", {}), jetstream.get("meta")
    return ServerStorage(
        name=server.get("server_name", ""),
        limit=limit,
        reserved=stats.get("reserved_storage", 0),
        used=stats.get("storage", 0),
        cluster_size=meta.get("cluster_size", 1) if meta else 1,
        meta=read_group(meta),
    )


def read_group(cluster: Json | None) -> RaftGroup | None:
    """`cluster` of an info. None outside a cluster: a single server names itself, and no cluster."""
    if not cluster or not cluster.get("name"):
        return None
    followers = (
        Follower(
            replica["name"],
            bool(replica.get("current")),
            bool(replica.get("offline")),
            replica.get("lag", 0),
        )
        for replica in cluster.get("replicas") or ()
    )
    return RaftGroup(cluster.get("leader", ""), tuple(followers))


# -- The partitions of the decide subject. They are found by their streams, whatever the settings
# name.


async def list_partition_facts(jetstream: JetStream, settings: Settings) -> list[PartitionFacts]:
    """Raises BrokerUnavailable and PermissionDenied."""
    names = await list_partitions(jetstream, settings.streams.decide.name, settings.decide.subject)
    return [await _read_partition(jetstream, settings, name) for name in names]


async def _read_partition(jetstream: JetStream, settings: Settings, name: str) -> PartitionFacts:
    stream, bucket = settings.streams.decide.name, settings.buckets.partitions.name
    info = await jetstream.consumer(partition_stream(stream, name), settings.decide.durable) or {}
    lease = await _read_record(jetstream, bucket, lease_key(name))
    standby = await _read_record(jetstream, bucket, standby_key(name))
    # the server's own clock: the one that stamped the records
    now_ns = nanos(info["ts"]) if "ts" in info else 0
    record = read_lease(lease.data) if lease is not None else None
    return PartitionFacts(
        name=name,
        pending=info.get("num_pending", 0),
        waiting_pulls=info.get("num_waiting", 0),
        holder=record.node_id if record is not None else "",
        is_owned=record is None or record.is_owner,
        lease_age=_age(lease, now_ns),
        standby_age=_age(standby, now_ns),
    )


async def _read_record(jetstream: JetStream, bucket: str, key: str) -> StoredMessage | None:
    try:
        return await jetstream.get(f"KV_{bucket}", {"last_by_subj": bucket_prefix(bucket) + key})
    except BrokerRefused as exc:
        if exc.err_code == STREAM_NOT_FOUND:
            return None
        raise


def _age(stored: StoredMessage | None, now_ns: int) -> float | None:
    return max(0.0, (now_ns - nanos(stored.time)) / 1e9) if stored is not None else None
