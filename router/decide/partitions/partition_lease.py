"""The records of the bucket ROUTER_PARTITIONS: who takes a partition's requests, and who stands by
for it.

    {partition}           the lease; written again and again by the router that takes the partition
    {partition}.standby   written now and then by each router that stands by

A record says who wrote it. That it is alive follows from its revision alone, which every renewal
changes: no time is written.
"""

from __future__ import annotations

from msgspec import Struct

from router.contracts.stored_record import RecordKind
from router.core.errors import Poison


class PartitionLease(Struct, frozen=True):
    """`instance`: of one process; `is_owner`: the partition is its own, so no standby keeps the
    lease from it.
    """

    node_id: str
    instance: str
    is_owner: bool = False


def lease_key(partition: str) -> str:
    return partition


def standby_key(partition: str) -> str:
    return f"{partition}.standby"


def read_lease(value: bytes) -> PartitionLease | None:
    """None: another program wrote it."""
    try:
        return _read(value)
    except Poison:
        return None


_read = RecordKind(PartitionLease, "the lease of a partition").read
