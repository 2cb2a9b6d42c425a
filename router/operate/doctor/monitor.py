"""What only a server itself tells, by its monitoring port or to the system account: how often it flushes, and what its disk holds.

An ordinary account sees its own streams and limits, and no server's.
"""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit
from urllib.request import urlopen

import nats.errors
import orjson
from msgspec import Struct

from router.core.errors import BrokerUnavailable, Misconfigured, RouterError
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import NANOS_PER_S
from router.operate.doctor.facts import Follower, RaftGroup, ServerStorage, SyncMode

MONITOR_TIMEOUT_S = 2.0


class ServerStates(Struct, frozen=True):
    """The state (`varz`) of each server that was read, and why the others were not."""

    states: Sequence[Json]
    unread: tuple[str, ...] = ()


async def read_servers(jetstream: JetStream, monitors: Sequence[str]) -> ServerStates:
    """Each server that has a monitoring port here; without one, the connected server, if this account may ask.

    Raises Misconfigured for what is no URL, BrokerUnavailable if no port answers: one of several may be of a server that is down.
    """
    if not monitors:
        return ServerStates([one for one in [await _read_as_system_account(jetstream)] if one])
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
        answer = await jetstream.connection.request(f"$SYS.REQ.SERVER.{server_id}.VARZ", timeout=0.5)
        return orjson.loads(answer.data).get("data", {})  # type: ignore[no-any-return]
    except (RouterError, nats.errors.Error, OSError, ValueError):
        return {}


def _read_monitor(url: str) -> Json:
    if urlsplit(url).scheme not in ("http", "https"):
        raise Misconfigured("monitor", f"{url!r} should be an http or https URL, like http://127.0.0.1:8222")
    try:
        with urlopen(f"{url.rstrip('/')}/varz", timeout=MONITOR_TIMEOUT_S) as answer:  # noqa: S310 - the scheme was looked at
            return orjson.loads(answer.read())  # type: ignore[no-any-return]
    except (OSError, ValueError) as exc:
        raise BrokerUnavailable(f"the monitoring port at {url} does not answer: {exc}") from exc


def find_sync_mode(servers: Sequence[Json]) -> SyncMode:
    """The slowest of the servers that were read: one that flushes late can lose what it acknowledged."""
    configs = [server.get("jetstream", {}).get("config", {}) for server in servers]
    modes = [_sync_mode(config) for config in configs]
    return max(modes, key=lambda mode: 0.0 if mode.is_always else mode.interval or 0.0, default=SyncMode())


def _sync_mode(config: Json) -> SyncMode:
    interval = config.get("sync_interval")
    return SyncMode(interval / NANOS_PER_S if interval is not None else None, bool(config.get("sync_always")))


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
        Follower(one["name"], bool(one.get("current")), bool(one.get("offline")), one.get("lag", 0))
        for one in cluster.get("replicas") or ()
    )
    return RaftGroup(cluster.get("leader", ""), tuple(followers))
