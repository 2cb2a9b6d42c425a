"""Has each partition of the decide subject a router, and another that takes it when the first one dies?"""

from __future__ import annotations

from collections.abc import Iterator

from router.operate.doctor.facts import Facts, PartitionFacts
from router.operate.doctor.finding import Finding, fail, ok, span, warn

LEASES_MISSED = 2  # a lease older than so many of its spans is not renewed
STANDBY_S = 45.0  # a standby says every 15 s that it is there


def partitions(facts: Facts) -> Iterator[Finding]:
    for partition in facts.partitions:
        yield _examine(partition, facts.lease)


def _examine(partition: PartitionFacts, lease_s: float) -> Finding:
    check, name = f"partition {partition.name}", partition.name
    is_renewed = partition.lease_age is not None and partition.lease_age < LEASES_MISSED * lease_s
    if not is_renewed and not partition.waiting_pulls:
        remedy = f"start its router: ROUTER_DECIDE__PARTITION={name}; or let another take it: ROUTER_DECIDE__STANDBY={name}"
        return fail(check, f"no router takes its requests, {partition.pending} wait{_last_holder(partition)}", remedy)
    if is_renewed and not partition.is_owned:
        return warn(
            check, f"{partition.holder} has taken it over: its own router is away", f"start its router: ROUTER_DECIDE__PARTITION={name}"
        )
    if partition.waiting_pulls < 2 and not _has_standby(partition):
        remedy = f"give another router ROUTER_DECIDE__STANDBY={name}, or start a second one with ROUTER_DECIDE__PARTITION={name}"
        return warn(check, f"{partition.holder or 'one router'} takes its requests, and none stands by: they wait when it dies", remedy)
    return ok(check, f"{partition.holder or 'a router'} takes its requests, {partition.pending} wait, another router can take over")


def _has_standby(partition: PartitionFacts) -> bool:
    return partition.standby_age is not None and partition.standby_age < STANDBY_S


def _last_holder(partition: PartitionFacts) -> str:
    if partition.lease_age is None or not partition.holder:
        return ""  # its last router ended and gave the lease up
    return f"; {partition.holder} renewed its lease {span(partition.lease_age)} ago"
