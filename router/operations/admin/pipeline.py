"""Inspects a policy's pipeline: its complexity, and a dry run with a payload (docs/operators.md#dry-run)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from msgspec import Struct

from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer, Service
from router.operations.admin.service_error import missing_field


class Trial(Struct, frozen=True, kw_only=True):
    """A dry run. With `is_invoking` False no extension is called, and each is shown as skipped."""

    tenant_id: str
    policy_id: str
    payload: object
    context: Mapping[str, object]  # the fields that conditions read
    is_invoking: bool


class PipelineInspector(Protocol):
    """Both methods raise ServiceError: policy_not_found."""

    def complexity(self, tenant_id: str, policy_id: str) -> Answer: ...

    async def dry_run(self, trial: Trial) -> Answer:
        """`{decision, executed_extensions, final_payload, trace}`; changes no session, breaker, limit or stream."""


class PipelineServices:
    """Answers from the policies that are live now."""

    def __init__(self, pipelines: PipelineInspector) -> None:
        self._pipelines = pipelines

    def list_services(self) -> tuple[Service, ...]:
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

    async def complexity(self, asked: RequestFields) -> Answer:
        return self._pipelines.complexity(asked.policy_tenant(), asked.policy_id())

    async def dry_run(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id, payload = asked.tenant_id(), asked.policy_id(), asked.value("payload")
        if payload is None:
            raise missing_field("payload")
        context = asked.json_object("context") if asked.value("context") is not None else {}
        trial = Trial(tenant_id=tenant_id, policy_id=policy_id, payload=payload, context=context, is_invoking=asked.flag("invoke"))
        return {"result": await self._pipelines.dry_run(trial)}
