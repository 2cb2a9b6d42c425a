"""Joins the recorded decisions of one router with the policies that made them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress

import orjson
from msgspec import to_builtins

from router.config import Settings
from router.operations.admin.service import Answer
from router.operations.admin.service_error import INVALID_REQUEST, ServiceError
from router.routing.decide import DecisionRecorder
from router.routing.decide.explain import explain_decision
from router.routing.policy import Comparison, Policy, PolicyError, PolicyFinder, compare, parse_policy
from router.services.policy_check import check_policy_in_thread
from router.services.policy_store import PolicyNotFound, PolicyStore

CASES_PER_TURN = 20  # cases compared in one turn of the event loop: under a millisecond

FindVersion = Callable[[str, str, int], Awaitable[Policy | None]]  # tenant (or `_shared`), policy, version


def build_recorder(settings: Settings) -> DecisionRecorder:
    """The recorder, with a ring buffer for each tenant that the settings name."""
    recorder = settings.recorder
    return DecisionRecorder(frozenset(recorder.tenants), recorder.entries, recorder.entry_max_bytes)


def version_finder(policies: PolicyFinder, store: PolicyStore) -> FindVersion:
    """Builds the function that finds a policy version: the one in force, or one from the history of the bucket."""

    async def find(tenant_id: str, policy_id: str, version: int) -> Policy | None:
        present = policies.find(tenant_id, policy_id)
        if present is not None and (present.tenant_id, present.version) == (tenant_id, version):
            return present
        with suppress(PolicyNotFound, PolicyError):
            record = (await store.get(tenant_id, policy_id, version=version)).record
            return (await asyncio.to_thread(parse_policy, record.document, tenant_id, policy_id, version)).policy
        return None

    return find


class RecordedDecisions:
    """`operations.admin.recorded.RecordingRepository` over the ring buffers of this process; `find_version` finds a policy version."""

    def __init__(self, recorder: DecisionRecorder, find_version: FindVersion) -> None:
        self._recorder = recorder
        self._find_version = find_version

    def is_recording(self, tenant_id: str) -> bool:
        return self._recorder.is_recorded(tenant_id)

    async def explain(self, tenant_id: str, request_id: str | None, message_id: str | None) -> Answer | None:
        case = self._recorder.find(tenant_id, request_id=request_id, message_id=message_id)
        if case is None:
            return None
        return explain_decision(case, await self._find_version(case.policy_tenant_id, case.policy_id, case.policy_version))

    async def compare(self, tenant_id: str, policy_id: str, document: Mapping[str, object], against: int) -> Answer:
        candidate = await _candidate(document, tenant_id, policy_id)
        compared: list[Comparison] = []
        for case in self._recorder.list_latest(tenant_id, policy_id, against):
            compared.append(compare(candidate, case))
            if len(compared) % CASES_PER_TURN == 0:
                await asyncio.sleep(0)
        newest = sorted(compared, key=lambda one: -one.at_ms)[:against]
        return {"is_recorded": self._recorder.is_recorded(tenant_id), "compared": to_builtins(newest)}


async def _candidate(document: Mapping[str, object], tenant_id: str, policy_id: str) -> Policy:
    try:
        return (await check_policy_in_thread(orjson.dumps(document), tenant_id, policy_id)).policy
    except PolicyError as exc:
        errors = [{"path": path, "message": message} for path, message in exc.errors]
        raise ServiceError(INVALID_REQUEST, "The candidate is no policy", {"field": "policy", "errors": errors}) from exc
