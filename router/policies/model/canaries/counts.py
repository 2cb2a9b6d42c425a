"""What this instance counts of one canary: outcomes and errors by arm, latencies of successes, and
what a shadow chose.

A canary of `_shared` counts by group of tenants: a hash of the tenant's id, drawn anew for each
canary, says which (docs/reference/canary.md#tenants).
"""

from __future__ import annotations

from collections.abc import Mapping
from zlib import crc32

from router.contracts.canary import CANDIDATE, CONTROL
from router.contracts.decision import DEADLINE_EXCEEDED, DECISION_FAILED, Decision, Refusal
from router.contracts.failure_class import PROVIDER, FailureClass
from router.policies.model import SHARED
from router.policies.model.canary import (
    GROUPS,
    ArmRecord,
    CanaryRecord,
    GroupRecord,
    ShadowRecord,
)
from router.policies.model.measurements.values import find_bucket

FAILURES = frozenset(
    {
        DECISION_FAILED,
        DEADLINE_EXCEEDED,
        "pre_processor_failed",
        "validator_blocked",
        "post_processor_failed",
    }
)
MAX_LATENCY_MS = 3_600_000.0


class ArmCounts:
    """One arm."""

    __slots__ = ("errors", "latencies", "outcomes")

    def __init__(self) -> None:
        self.outcomes = self.errors = 0
        self.latencies: dict[int, int] = {}

    def build_record(self) -> ArmRecord:
        return ArmRecord(self.outcomes, self.errors, dict(self.latencies))


class CanaryCounts:
    """`is_changed`: since the one who writes them set it to false."""

    def __init__(self, tenant_id: str, policy_id: str, version: int) -> None:
        self.name = tenant_id, policy_id
        self.version = version
        self.is_changed = False
        self._groups: dict[int, dict[str, ArmCounts]] = {}  # by number, at most GROUPS
        self._decisions = self._differences = self._both = 0
        self._sums = [0.0, 0.0, 0.0, 0.0]  # cost of control and candidate, latency of both

    def on_answer(self, arm: str, answer: Decision | Refusal, tenant_id: str) -> None:
        """An answer that no result follows."""
        if isinstance(answer, Refusal) and answer.code not in FAILURES:
            return  # a rate limit, an unknown policy: not the arm's
        self._count(self._find_arm(arm, tenant_id), is_error=isinstance(answer, Refusal))

    def on_result(
        self, arm: str, outcome: FailureClass | None, latency_ms: float, tenant_id: str
    ) -> None:
        """The first result of an assignment; None: a success. Of the failures only a provider's
        says something of an arm.
        """
        if outcome is None:
            counts = self._find_arm(arm, tenant_id)
            self._count(counts, is_error=False)
            bucket = find_bucket(min(float(latency_ms), MAX_LATENCY_MS))
            counts.latencies[bucket] = counts.latencies.get(bucket, 0) + 1
        elif outcome is PROVIDER:
            self._count(self._find_arm(arm, tenant_id), is_error=True)

    def on_shadow(self, answer: Decision | Refusal, shadow: Decision | Refusal) -> None:
        self.is_changed = True
        self._decisions += 1
        if isinstance(answer, Decision) and isinstance(shadow, Decision):
            self._differences += answer.provider_id != shadow.provider_id
            self._both += 1
            pairs = (
                answer.expected_cost,
                shadow.expected_cost,
                answer.expected_latency_ms,
                shadow.expected_latency_ms,
            )
            self._sums = [total + figure for total, figure in zip(self._sums, pairs, strict=True)]
        elif type(answer) is not type(shadow):
            self._differences += 1

    def build_record(self, node: str, life: str) -> CanaryRecord:
        tenant_id, policy_id = self.name
        return CanaryRecord(
            tenant_id=tenant_id,
            policy_id=policy_id,
            version=self.version,
            node=node,
            life=life,
            groups={number: _build_group(arms) for number, arms in self._groups.items()},
            shadow=ShadowRecord(self._decisions, self._differences, self._both, *self._sums),
        )

    def _find_arm(self, arm: str, tenant_id: str) -> ArmCounts:
        number = (
            crc32(f"{self.version}/{tenant_id}".encode()) % GROUPS if self.name[0] == SHARED else 0
        )
        arms = self._groups.get(number)
        if arms is None:
            arms = self._groups[number] = {CONTROL: ArmCounts(), CANDIDATE: ArmCounts()}
        return arms[arm]

    def _count(self, counts: ArmCounts, *, is_error: bool) -> None:
        counts.outcomes += 1
        counts.errors += is_error
        self.is_changed = True


def _build_group(arms: Mapping[str, ArmCounts]) -> GroupRecord:
    return GroupRecord(arms[CONTROL].build_record(), arms[CANDIDATE].build_record())
