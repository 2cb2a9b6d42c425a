"""Reads the facts about the partitions of the decide subject. They are found by their streams,
whatever the settings name.
"""

from __future__ import annotations

from msgspec import Struct

from router.core.errors import BrokerRefused
from router.core.ids import bucket_prefix
from router.decide.partitions.partition_lease import lease_key, read_lease, standby_key
from router.delivery.wire.api import STREAM_NOT_FOUND, JetStream, StoredMessage, nanos
from router.operate.doctor.facts import PartitionFacts
from router.operate.topology.partitions import list_partitions, partition_stream


class PartitionedSubject(Struct, frozen=True):
    """`stream`: of the whole subject; `bucket`: of the leases, which last `lease` seconds."""

    subject: str
    stream: str
    durable: str
    bucket: str
    lease: float


async def list_partition_facts(
    jetstream: JetStream, partitioned: PartitionedSubject
) -> list[PartitionFacts]:
    """Raises BrokerUnavailable and PermissionDenied."""
    names = await list_partitions(jetstream, partitioned.stream, partitioned.subject)
    return [await _read(jetstream, partitioned, name) for name in names]


async def _read(jetstream: JetStream, partitioned: PartitionedSubject, name: str) -> PartitionFacts:
    info = (
        await jetstream.consumer(partition_stream(partitioned.stream, name), partitioned.durable)
        or {}
    )
    lease = await _read_record(jetstream, partitioned.bucket, lease_key(name))
    standby = await _read_record(jetstream, partitioned.bucket, standby_key(name))
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
