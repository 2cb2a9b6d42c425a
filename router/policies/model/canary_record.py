"""What one instance has counted of a canary, as it stands in the bucket of canaries
(docs/reference/canary.md#counted).

    {tenant_id, policy_id, version, node, life, groups{number: {control{…}, candidate{…}}},
    shadow{…}}

The outcomes of a policy of `_shared` are counted by group of tenants, so that one tenant's cannot
decide for all.

Each process writes a key of its own for each canary, so no write conflicts with another, and what
is counted is added up. A process that starts anew has a new key: what it had counted before stays
where it is.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from router.contracts.stored_record import KeyedRecord
from router.core import ids

MAX_BUCKETS = 256  # of a distribution of latencies
# of tenants, by a hash of their ids: a record stays small, however many tenants there are
GROUPS = 32

_Count = Annotated[int, Meta(ge=0, le=2**53)]
_Sum = Annotated[float, Meta(ge=0, le=1e18)]


class ArmRecord(Struct, frozen=True, omit_defaults=True):
    """One arm: `outcomes` are requests that ended, `errors` those that ended badly, `latencies`
    counts successes by bucket.
    """

    outcomes: _Count = 0
    errors: _Count = 0
    latencies: Annotated[
        dict[Annotated[int, Meta(ge=0, lt=MAX_BUCKETS)], _Count], Meta(max_length=MAX_BUCKETS)
    ] = {}


class GroupRecord(Struct, frozen=True, omit_defaults=True):
    """Both arms, of one group of tenants."""

    control: ArmRecord = ArmRecord()
    candidate: ArmRecord = ArmRecord()


class ShadowRecord(Struct, frozen=True, omit_defaults=True):
    """Decisions with a shadow beside them: how many chose another provider, or refused; sums of
    what both expected, where both chose.
    """

    decisions: _Count = 0
    differences: _Count = 0
    both: _Count = 0
    control_cost: _Sum = 0.0
    candidate_cost: _Sum = 0.0
    control_latency_ms: _Sum = 0.0
    candidate_latency_ms: _Sum = 0.0


class CanaryRecord(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`version`: of the policy whose record holds the canary. `life` names one process, `node`
    names it to people.
    """

    tenant_id: str
    policy_id: str
    version: Annotated[int, Meta(ge=1)]
    node: str
    life: str
    groups: Annotated[
        dict[Annotated[int, Meta(ge=0, lt=GROUPS)], GroupRecord], Meta(max_length=GROUPS)
    ] = {}
    shadow: ShadowRecord = ShadowRecord()

    @property
    def key(self) -> str:
        return canary_key(self.tenant_id, self.policy_id, self.life)


def canary_key(tenant_id: str, policy_id: str, life: str) -> str:
    return ids.key(tenant_id, policy_id, life)


def add_arms(parts: Iterable[ArmRecord]) -> ArmRecord:
    outcomes, errors, latencies = 0, 0, dict[int, int]()
    for part in parts:
        outcomes, errors = outcomes + part.outcomes, errors + part.errors
        for bucket, count in part.latencies.items():
            latencies[bucket] = latencies.get(bucket, 0) + count
    return ArmRecord(outcomes, errors, latencies)


def add_groups(parts: Iterable[CanaryRecord]) -> tuple[GroupRecord, ...]:
    """One record for each group that any of them has, in order of its number."""
    found: dict[int, list[GroupRecord]] = {}
    for part in parts:
        for number, group in part.groups.items():
            found.setdefault(number, []).append(group)
    return tuple(_add_group(found[number]) for number in sorted(found))


def _add_group(parts: Sequence[GroupRecord]) -> GroupRecord:
    return GroupRecord(
        add_arms(one.control for one in parts), add_arms(one.candidate for one in parts)
    )


def add_shadows(parts: Iterable[ShadowRecord]) -> ShadowRecord:
    sums = [sum(column) for column in zip(*map(msgspec.structs.astuple, parts), strict=True)]
    return ShadowRecord(*sums)


read_canary_record = KeyedRecord(CanaryRecord, "a record of a canary").read
