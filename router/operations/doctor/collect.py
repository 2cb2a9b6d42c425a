"""Reads the facts from a server. Read-only: it creates and changes nothing, and pulls no message from a consumer."""

from __future__ import annotations

from collections.abc import Awaitable
from datetime import datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit
from urllib.request import urlopen

import nats.errors
import orjson

from router.core.clock import wall
from router.core.errors import BrokerRefused, BrokerUnavailable, Misconfigured, PermissionDenied, RouterError
from router.delivery.api import JetStream, Json, StoredMessage
from router.delivery.topology import NANOS_PER_S, ConsumerSpec, StreamSpec, Topology, compare
from router.operations.doctor.collect_partitions import PartitionedSubject, list_partition_facts
from router.operations.doctor.facts import ConsumerFacts, Facts, ServerFacts, StreamFacts, SyncMode

T = TypeVar("T")
EARLIER_BUCKETS = ("ROUTER_STARTS",)  # of versions before this one
_MONITOR_TIMEOUT_S = 2.0


async def collect(
    jetstream: JetStream,
    topology: Topology,
    *,
    letters: str,
    max_request: int,
    cleaned_stream: str = "",
    monitor: str | None = None,
    partitioned: PartitionedSubject | None = None,
) -> Facts:
    """All facts that `checks` need. `monitor`: the URL of the server's monitoring port, if it has one.

    Raises BrokerUnavailable if the server stops answering. A server without JetStream, or a missing permission, is a finding, not
    an error.
    """
    server = await _server(jetstream, monitor)
    if not server.has_jetstream:
        return Facts(now=wall(), server=server, max_request=max_request)
    denied = [server.why_not] if server.why_not else []
    streams = [await _note_denied(_stream(jetstream, spec), denied) for spec in topology.streams]
    consumers = [await _note_denied(_consumer(jetstream, spec), denied) for spec in topology.consumers]
    return Facts(
        denied=tuple(denied),
        now=wall(),
        server=server,
        max_request=max_request,
        streams=tuple(stream for stream in streams if stream is not None),
        consumers=tuple(consumer for consumer in consumers if consumer is not None),
        differences=tuple(await _note_denied(compare(jetstream, topology), []) or ()),
        partitions=tuple(await _note_denied(list_partition_facts(jetstream, partitioned), denied) or ()) if partitioned else (),
        lease=partitioned.lease if partitioned else 0.0,
        left_over=tuple([name for name in EARLIER_BUCKETS if await _note_denied(_is_left_over(jetstream, name, topology), [])]),
        letters=letters,
        cleaned_stream=cleaned_stream,
    )


async def _server(jetstream: JetStream, monitor: str | None) -> ServerFacts:
    connection = jetstream.connection
    version = connection.connected_server_version
    has_jetstream, why_not = await _has_jetstream(jetstream)
    return ServerFacts(
        version=(version.major, version.minor, version.patch),
        has_jetstream=has_jetstream,
        why_not=why_not,
        max_payload=connection.max_payload,
        is_clustered=bool(connection._server_info.get("cluster")),
        sync=await _sync_mode(jetstream, monitor),
    )


async def _has_jetstream(jetstream: JetStream) -> tuple[bool, str]:
    """Also returns the server's refusal. A user without permission for the account may still read its streams."""
    try:
        await jetstream.account()
    except PermissionDenied as exc:
        return True, str(exc)
    except (BrokerUnavailable, BrokerRefused) as exc:
        return False, str(exc)
    return True, ""


async def _note_denied(reading: Awaitable[T], denied: list[str]) -> T | None:
    """The result; None if the server denies it, and the reason is added to `denied`."""
    try:
        return await reading
    except PermissionDenied as exc:
        denied.append(str(exc))
        return None


async def _sync_mode(jetstream: JetStream, monitor: str | None) -> SyncMode:
    """Only the monitoring port and the system account show it; an ordinary account gets 'no responders' at once."""
    status = _from_monitor(monitor) if monitor else await _from_system_account(jetstream)
    config = status.get("jetstream", {}).get("config", {})
    interval = config.get("sync_interval")
    return SyncMode(interval / NANOS_PER_S if interval is not None else None, bool(config.get("sync_always")))


async def _from_system_account(jetstream: JetStream) -> Json:
    server_id = jetstream.connection._server_info.get("server_id")
    try:
        answer = await jetstream.connection.request(f"$SYS.REQ.SERVER.{server_id}.VARZ", timeout=0.5)
        return orjson.loads(answer.data).get("data", {})  # type: ignore[no-any-return]
    except (RouterError, nats.errors.Error, OSError, ValueError):
        return {}


def _from_monitor(url: str) -> Json:
    if urlsplit(url).scheme not in ("http", "https"):
        raise Misconfigured("monitor", f"{url!r} should be an http or https URL, like http://127.0.0.1:8222")
    try:
        with urlopen(f"{url.rstrip('/')}/varz", timeout=_MONITOR_TIMEOUT_S) as answer:  # noqa: S310 - the scheme was looked at
            return orjson.loads(answer.read())  # type: ignore[no-any-return]
    except (OSError, ValueError) as exc:
        raise BrokerUnavailable(f"the monitoring port at {url} does not answer: {exc}") from exc


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
        lagging=tuple(_find_lagging(info.get("cluster") or {})),
        first_sequence=state["first_seq"],
        last_sequence=state["last_seq"],
        first_at=_seconds(state.get("first_ts")) if state["messages"] else None,
        recent_sequence=recent.sequence if recent is not None else None,
        recent_at=_seconds(recent.time) if recent is not None else None,
        last_at=_seconds(state.get("last_ts")) if state["messages"] else None,
    )


async def _is_left_over(jetstream: JetStream, bucket: str, topology: Topology) -> bool:
    stream = f"KV_{bucket}"
    return all(spec.name != stream for spec in topology.streams) and await jetstream.stream(stream) is not None


async def _newest_tenth(jetstream: JetStream, stream: str, state: Json) -> StoredMessage | None:
    """Its first message: from there on the rate is measured."""
    begin = state["last_seq"] - (state["last_seq"] - state["first_seq"]) // 10
    if not state["messages"] or begin >= state["last_seq"]:
        return None
    return await jetstream.get_next(stream, ">", begin)


def _find_lagging(cluster: dict[str, Any]) -> list[str]:
    return [peer["name"] for peer in cluster.get("replicas") or () if peer.get("offline") or not peer.get("current")]


async def _consumer(jetstream: JetStream, spec: ConsumerSpec) -> ConsumerFacts | None:
    info = await jetstream.consumer(spec.stream, spec.durable)
    if info is None:
        return None
    pending, unacknowledged = info["num_pending"], info["num_ack_pending"]
    oldest = None
    if pending or unacknowledged:
        oldest = await jetstream.get_next(spec.stream, spec.filter_subject or ">", info["ack_floor"]["stream_seq"] + 1)
    return ConsumerFacts(
        spec=spec,
        pending=pending,
        unacknowledged=unacknowledged,
        redelivered=info["num_redelivered"],
        waiting_pulls=info["num_waiting"],
        delivered_sequence=info["delivered"]["stream_seq"],
        oldest_sequence=oldest.sequence if oldest else None,
        oldest_at=_seconds(oldest.time) if oldest else None,
    )


def _seconds(text: str | None) -> float | None:
    try:
        return datetime.fromisoformat(text).timestamp() if text else None
    except ValueError:
        return None
