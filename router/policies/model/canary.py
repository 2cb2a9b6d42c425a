"""A policy with a canary: two arms, and which of them decides a request
(docs/reference/canary.md#split).

    the record in the bucket ── parse_record ──> the version in force (control), with the candidate beside it
    request ── find_arm ──> control | candidate: a hash of the session, or of the request identity where it has none

Pure: the same request of the same version finds the same arm on every instance and for ever. A
shadow is never found.
"""

from __future__ import annotations

from msgspec.structs import replace

from router.contracts.canary import CANDIDATE, CONTROL
from router.contracts.request import RouteRequest
from router.contracts.version_record import VersionRecord
from router.policies.model.engine import read_session
from router.policies.model.parse import parse_policy
from router.policies.model.policy import (
    DRAW_RANGE,
    Policy,
    PolicyCanary,
    StickySessions,
    weighted_hash,
)

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
