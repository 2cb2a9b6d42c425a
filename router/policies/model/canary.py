"""A policy with a canary: two arms, which of them decides a request
(docs/reference/canary.md#split), what is counted of both, and a shadow beside the choice that
counts.

    the record in the bucket ── parse_record ──> the version in force (control), with the candidate beside it
    request ── find_arm ──> control | candidate: a hash of the session, or of the request identity where it has none

Pure: the same request of the same version finds the same arm on every instance and for ever. A
shadow is never found.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from router.contracts.canary import CANDIDATE, CONTROL
from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.stored_record import KeyedRecord
from router.contracts.version_record import VersionRecord
from router.core import ids
from router.policies.model.engine import evaluate, read_session
from router.policies.model.measurements import NO_FIGURES, LearnedFigures
from router.policies.model.narrowed import NO_STATES, PreviousAttempt, ProviderStates
from router.policies.model.parse import parse_policy
from router.policies.model.policy import (
    DRAW_RANGE,
    Policy,
    PolicyCanary,
    StickySessions,
    weighted_hash,
)
from router.policies.model.reevaluation import has_session_key

_SESSION_KEY = StickySessions().session_key  # of a policy without sticky sessions


def parse_record(record: VersionRecord, tenant_id: str, policy_id: str) -> Policy:
    """The policy of a record, with its canary. Raises PolicyError for either document."""
    plan = record.canary
    if plan is None:
        return parse_policy(record.document, tenant_id, policy_id, record.version).policy
    control = parse_policy(
        record.document,
        tenant_id,
        policy_id,
        record.version,
        arm=None if plan.is_shadow else CONTROL,
    ).policy
    candidate = parse_policy(
        plan.document, tenant_id, policy_id, record.version, arm=CANDIDATE
    ).policy
    return replace(
        control, canary=PolicyCanary(candidate, int(plan.share / 100 * DRAW_RANGE), plan)
    )


def find_arm(policy: Policy, request: RouteRequest) -> Policy:
    """Which of the two decides this request; `policy` itself where it has no canary."""
    canary = policy.canary
    if canary is None or canary.plan.is_shadow:
        return policy
    session_key = policy.sticky.session_key if policy.sticky is not None else _SESSION_KEY
    key = read_session(session_key, request) or request.request_key
    # Another text than that of the draw: within an arm every provider keeps its weight.
    is_tried = weighted_hash(policy.version, request.tenant_id, f"canary\0{key}") < canary.bound
    return canary.candidate if is_tried else policy


def select_arm(policy: Policy, arm: str | None) -> Policy:
    """The arm that a recorded decision names."""
    return policy.canary.candidate if arm == CANDIDATE and policy.canary is not None else policy


# -- The port by which the decide handler reports what became of the requests of a policy with a
# canary (docs/reference/canary.md#counted).


class CanaryMeter(Protocol):
    """Called only for policies with a canary."""

    def on_decided(
        self, policy: Policy, tenant_id: str, answer: Decision | Refusal, *, is_pushed: bool
    ) -> None:
        """An arm decided. A decision that is pushed ends with its result, any other answer here."""

    def on_shadow(
        self, policy: Policy, answer: Decision | Refusal, shadow: Decision | Refusal
    ) -> None:
        """A shadow decided beside `answer`."""


# -- What one instance has counted of a canary, as it stands in the bucket of canaries
# (docs/reference/canary.md#counted).
#
#     {tenant_id, policy_id, version, node, life, groups{number: {control{…}, candidate{…}}},
#     shadow{…}}
#
# The outcomes of a policy of `_shared` are counted by group of tenants, so that one tenant's cannot
# decide for all.
#
# Each process writes a key of its own for each canary, so no write conflicts with another, and what
# is counted is added up. A process that starts anew has a new key: what it had counted before stays
# where it is.


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
    by_number: dict[int, list[GroupRecord]] = {}
    for part in parts:
        for number, group in part.groups.items():
            by_number.setdefault(number, []).append(group)
    return tuple(_add_group(by_number[number]) for number in sorted(by_number))


def _add_group(parts: Sequence[GroupRecord]) -> GroupRecord:
    return GroupRecord(
        add_arms(part.control for part in parts), add_arms(part.candidate for part in parts)
    )


def add_shadows(parts: Iterable[ShadowRecord]) -> ShadowRecord:
    sums = [sum(column) for column in zip(*map(msgspec.structs.astuple, parts), strict=True)]
    return ShadowRecord(*sums)


read_canary_record = KeyedRecord(CanaryRecord, "a record of a canary").read


# -- A shadow: what the candidate of a policy would have chosen, beside the choice that counts
# (docs/reference/canary.md#shadow).


def evaluate_shadow(
    policy: Policy,
    request: RouteRequest,
    *,
    states: ProviderStates = NO_STATES,
    figures: Mapping[str, LearnedFigures] = NO_FIGURES,
    now: float,
    remembered: str | None = None,
    previous: PreviousAttempt | None = None,
) -> Decision | Refusal | None:
    """The same inputs as `evaluate` had for `policy`. None: it has no shadow."""
    canary = policy.canary
    if canary is None or not canary.plan.is_shadow:
        return None
    session_key = policy.sticky.session_key if policy.sticky is not None else None
    remembered = remembered if has_session_key(canary.candidate, session_key) else None
    return evaluate(
        canary.candidate,
        request,
        states=states,
        figures=figures,
        now=now,
        remembered=remembered,
        previous=previous,
    )
