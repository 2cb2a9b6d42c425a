"""Counts what becomes of the requests of canaries, shares the counts among instances, and ends a
canary when it is decided.

    an outcome ── counts of this process ──> write (a child) ──> ROUTER_CANARIES ──> follow (a child) ──> the others' counts
    all counts ── judge (a child), each second ──> a new version of the policy: the candidate, or the version in force again

Every instance judges the same counts. The write names the version that it replaces, so one of them
ends the canary and the others see a conflict. While the bucket is unavailable nothing is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from router.contracts.alert import WARNING, Alert
from router.contracts.assignment import Assignment
from router.contracts.canary import ARM, ARMS
from router.contracts.decision import Decision, Refusal
from router.contracts.failure_class import classify_outcome
from router.contracts.result import ExecResult
from router.contracts.stored_record import record_bytes
from router.core.clock import Clock, wall
from router.core.errors import Conflict, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.shared_bucket import SharedRecords
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.operate.alerts import Alerts
from router.policies.model import Policy, PolicyTable
from router.policies.model.canaries import (
    CanaryCounts,
    CanaryTotals,
    CanaryVerdict,
    add_totals,
    is_one_sided,
    judge,
)
from router.policies.model.canary import CanaryRecord, read_canary_record
from router.policies.store import PolicyStore
from router.process.observability import events, logs

log = logs.logger(__name__)

JUDGE_S = 1.0

Name = tuple[str, str]  # tenant (or `_shared`), policy


class SharedCanaries(SharedRecords[CanaryCounts]):
    """`model.canary.CanaryMeter`, what results report, and the three children that share and
    judge.
    """

    def __init__(
        self,
        jetstream: JetStream,
        bucket: str,
        node_id: str,
        *,
        policies: PolicyTable,
        store: PolicyStore,
        alerts: Alerts,
        wall_clock: Clock = wall,
        infos: SharedInfo | None = None,
    ) -> None:
        super().__init__(jetstream, bucket, node_id, infos)
        self._policies = policies
        self._store = store
        self._alerts = alerts
        self._wall_clock = wall_clock
        self._counts: dict[Name, CanaryCounts] = {}
        # by key: its revision; None: unreadable
        self._others: dict[str, tuple[int, CanaryRecord | None]] = {}

    def on_decided(
        self, policy: Policy, tenant_id: str, answer: Decision | Refusal, *, is_pushed: bool
    ) -> None:
        if isinstance(answer, Decision) and (is_pushed or answer.metadata.get(ARM) != policy.arm):
            return  # its result is counted, or a budget chose another policy
        if policy.arm is not None:
            self._find_counts(policy).on_answer(policy.arm, answer, tenant_id)

    def on_shadow(
        self, policy: Policy, answer: Decision | Refusal, shadow: Decision | Refusal
    ) -> None:
        self._find_counts(policy).on_shadow(answer, shadow)

    def on_result(self, assignment: Assignment, result: ExecResult) -> None:
        """The first result of a known assignment; the assignment names the arm that decided it."""
        metadata = assignment.decision.metadata
        arm = metadata.get(ARM)
        if arm not in ARMS:  # absent, or an extension's word where no canary runs
            return
        policy = self._policies.find(assignment.tenant_id, metadata.get("policy_id", ""))
        if (
            policy is not None
            and policy.canary is not None
            and metadata.get("policy_version") == str(policy.version)
        ):
            outcome = classify_outcome(result.status, result.error_code)
            self._find_counts(policy).on_result(
                arm, outcome, result.latency_ms, assignment.tenant_id
            )

    def _find_counts(self, policy: Policy) -> CanaryCounts:
        name = policy.tenant_id, policy.policy_id
        counts = self._counts.get(name)
        if counts is not None and counts.version > policy.version:
            # of a canary that is over: a pipeline took long; counted for nothing
            return CanaryCounts(*name, policy.version)
        if counts is None or counts.version < policy.version:
            counts = self._counts[name] = CanaryCounts(*name, policy.version)
        return counts

    def list_changed(self, *, is_last: bool) -> Sequence[CanaryCounts]:
        return [counts for counts in self._counts.values() if counts.is_changed]

    def build_entry(self, counts: CanaryCounts) -> tuple[str, bytes]:
        counts.is_changed = False
        record = counts.build_record(self._node_id, self._life)
        return record.key, record_bytes(record)

    def mark_changed(self, counts: CanaryCounts) -> None:
        counts.is_changed = True

    def log_failure(self, counts: CanaryCounts, cause: RouterError) -> None:
        log.warning(
            events.CANARY_NOT_SHARED, tenant=counts.name[0], policy=counts.name[1], cause=str(cause)
        )

    async def judge(self) -> None:
        """A child of the tree: end each canary that is decided, until cancelled."""
        while True:
            await asyncio.sleep(JUDGE_S)
            running = list(self._list_running())
            self._keep_counts(
                {(policy.tenant_id, policy.policy_id): policy.version for policy in running}
            )
            if self._mirror.check.ok:
                for policy in running:
                    await self._judge(policy)

    def on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Read the entries that are new."""
        others = self._others
        self._others = {
            key: self._read(others, key, entry)
            for key, entry in entries.items()
            if not key.endswith(self._life)
        }

    def count_totals(self, policy: Policy) -> CanaryTotals:
        """What all instances have counted of the policy's canary."""
        name = policy.tenant_id, policy.policy_id
        records = [
            record
            for _, record in self._others.values()
            if record is not None and _is_of(record, policy)
        ]
        own = self._counts.get(name)
        if own is not None and own.version == policy.version:
            records.append(own.build_record(self._node_id, self._life))
        return add_totals(records)

    def _read(
        self, others: Mapping[str, tuple[int, CanaryRecord | None]], key: str, entry: BucketEntry
    ) -> tuple[int, CanaryRecord | None]:
        before = others.get(key)
        if before is not None and before[0] == entry.revision:
            return before
        record = self.try_read(entry, read_canary_record, events.CANARY_UNREADABLE)
        return entry.revision, record

    def _list_running(self) -> Iterator[Policy]:
        return (policy for policy in self._policies.get_all().values() if policy.canary is not None)

    def _keep_counts(self, versions: Mapping[Name, int]) -> None:
        """Those of the canaries that run."""
        self._counts = {
            name: counts
            for name, counts in self._counts.items()
            if counts.version == versions.get(name)
        }

    async def _judge(self, policy: Policy) -> None:
        if policy.canary is None:
            return
        plan, totals = policy.canary.plan, self.count_totals(policy)
        verdict, note = judge(plan, totals, self._wall_clock() * 1000)
        if verdict is CanaryVerdict.GO_ON:
            # an operator may know whether that tenant is to be believed
            if is_one_sided(plan, totals):
                self._alerts.raise_alert(_build_warning(policy, note))
            return
        try:
            version = await self._store.end_canary(
                policy.tenant_id, policy.policy_id, policy.version, verdict, note
            )
        except Conflict:
            return  # another instance has ended it, or an operator has written the policy
        except RouterError as exc:  # the next round tries again
            if self._lines.allow("judge"):
                log.warning(
                    events.CANARY_NOT_ENDED,
                    tenant=policy.tenant_id,
                    policy=policy.policy_id,
                    cause=str(exc),
                )
            return
        log.info(
            events.CANARY_ENDED,
            tenant=policy.tenant_id,
            policy=policy.policy_id,
            version=version,
            verdict=verdict.value,
            why=note,
        )
        if verdict is CanaryVerdict.ROLL_BACK:
            self._alerts.raise_alert(_build_alert(policy, version, note))
        await self._forget(policy)

    async def _forget(self, policy: Policy) -> None:
        """Delete what was counted of a canary that has ended; what stays is dropped by the bucket's
        time.
        """
        entries = [
            (key, revision)
            for key, (revision, record) in self._others.items()
            if record is not None and _is_of(record, policy)
        ]
        with suppress(RouterError):
            for key, revision in entries:
                # another instance has deleted it, or its own has counted on
                with suppress(Conflict):
                    await self._documents.delete(key, revision=revision)


def _is_of(record: CanaryRecord, policy: Policy) -> bool:
    return (record.tenant_id, record.policy_id, record.version) == (
        policy.tenant_id,
        policy.policy_id,
        policy.version,
    )


def _build_warning(policy: Policy, note: str) -> Alert:
    text = (
        f"The canary of {policy.tenant_id}/{policy.policy_id} is worse for one group of "
        f"tenants, and goes on: {note}"
    )
    cause = f"canary_one_sided:{policy.tenant_id}/{policy.policy_id}"
    return Alert(severity=WARNING, component="router.policy", cause=cause, message=text)


def _build_alert(policy: Policy, version: int, note: str) -> Alert:
    text = (
        f"The canary of {policy.tenant_id}/{policy.policy_id} was rolled back, version "
        f"{version}: {note}"
    )
    return Alert(
        severity=WARNING,
        component="router.policy",
        cause=f"canary_rolled_back:{policy.tenant_id}/{policy.policy_id}",
        message=text,
    )
