"""What this instance counts of one canary: outcomes and errors by arm, latencies of successes, and what a shadow chose."""

from __future__ import annotations

from router.contracts.canary import CANDIDATE, CONTROL
from router.contracts.canary_record import ArmRecord, CanaryRecord, ShadowRecord
from router.contracts.decision import (
    DEADLINE_EXCEEDED,
    DECISION_FAILED,
    Decision,
    Refusal,
)
from router.contracts.failure_class import PROVIDER, FailureClass
from router.routing.measurements.latencies import find_bucket

FAILURES = frozenset({DECISION_FAILED, DEADLINE_EXCEEDED, "pre_processor_failed", "validator_blocked", "post_processor_failed"})
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
        self._arms = {CONTROL: ArmCounts(), CANDIDATE: ArmCounts()}
        self._decisions = self._differences = self._both = 0
        self._sums = [0.0, 0.0, 0.0, 0.0]  # cost of control and candidate, latency of both

    def on_answer(self, arm: str, answer: Decision | Refusal) -> None:
        """An answer that no result follows."""
        if isinstance(answer, Refusal) and answer.code not in FAILURES:
            return  # a rate limit, an unknown policy: not the arm's
        self._count(arm, is_error=isinstance(answer, Refusal))

    def on_result(self, arm: str, outcome: FailureClass | None, latency_ms: float) -> None:
        """The first result of an assignment; None: a success. Of the failures only a provider's says something of an arm."""
        if outcome is None:
            self._count(arm, is_error=False)
            bucket, latencies = find_bucket(min(float(latency_ms), MAX_LATENCY_MS)), self._arms[arm].latencies
            latencies[bucket] = latencies.get(bucket, 0) + 1
        elif outcome is PROVIDER:
            self._count(arm, is_error=True)

    def on_shadow(self, answer: Decision | Refusal, shadow: Decision | Refusal) -> None:
        self.is_changed = True
        self._decisions += 1
        if isinstance(answer, Decision) and isinstance(shadow, Decision):
            self._differences += answer.provider_id != shadow.provider_id
            self._both += 1
            pairs = (answer.expected_cost, shadow.expected_cost, answer.expected_latency_ms, shadow.expected_latency_ms)
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
            control=self._arms[CONTROL].build_record(),
            candidate=self._arms[CANDIDATE].build_record(),
            shadow=ShadowRecord(self._decisions, self._differences, self._both, *self._sums),
        )

    def _count(self, arm: str, *, is_error: bool) -> None:
        counts = self._arms[arm]
        counts.outcomes += 1
        counts.errors += is_error
        self.is_changed = True
