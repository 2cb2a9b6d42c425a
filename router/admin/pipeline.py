"""A policy's pipeline, looked at: how heavy it is, and what it would do with a payload (docs/operators.md#dry-run)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from router.admin.asked import Asked
from router.admin.declined import missing
from router.admin.service import Answer, Service


class Trial(Struct, frozen=True, kw_only=True):
    """A dry run: `is_invoking` False calls nobody, and shows every extension as skipped."""

    tenant_id: str
    policy_id: str
    payload: object
    context: Mapping[str, object]  # what conditions ask for
    is_invoking: bool


class Pipelines(Protocol):
    """Both raise Declined: policy_not_found."""

    def complexity(self, tenant_id: str, policy_id: str) -> Answer: ...

    async def dry_run(self, trial: Trial) -> Answer:
        """`{decision, executed_extensions, final_payload, trace}`; touches no session, breaker, limit or stream."""


class PipelineServices:
    """Answers from the policies in force: what a request of this moment would meet."""

    def __init__(self, pipelines: Pipelines) -> None:
        self._pipelines = pipelines

    def all(self) -> tuple[Service, ...]:
        policy = "{tenant_id, policy_id}"
        dry = "{tenant_id, policy_id, payload, context?, invoke?}"
        result = "{ok, result{decision or error, executed_extensions[{type, id, status, latency_ms}], final_payload, trace[]}}"
        heavy = (
            "{total_extensions, pre_count, validators_count, post_count, complexity_score, complexity_level, estimated_latency_ms, "
            "recommended_limits, warnings, recommendations}"
        )
        return (
            Service(
                "dry_run_pipeline",
                "What a policy would do with a payload; with invoke its extensions are called",
                dry,
                result,
                self.dry_run,
            ),
            Service("get_pipeline_complexity", "How heavy a policy's pipeline is", policy, heavy, self.complexity),
        )

    async def complexity(self, asked: Asked) -> Answer:
        return self._pipelines.complexity(asked.shelf_tenant(), asked.policy_id())

    async def dry_run(self, asked: Asked) -> Answer:
        tenant_id, policy_id, payload = asked.tenant_id(), asked.policy_id(), asked.value("payload")
        if payload is None:
            raise missing("payload")
        context = asked.an_object("context") if asked.value("context") is not None else {}
        trial = Trial(tenant_id=tenant_id, policy_id=policy_id, payload=payload, context=context, is_invoking=asked.flag("invoke"))
        return {"result": await self._pipelines.dry_run(trial)}
