"""Inspects a policy's pipeline for operators: its complexity, the services that answer for its
extensions, and a dry run with a payload (docs/reference/operators.md#dry-run).

A dry run stores no session, uses up no rate limit and counts nothing. Without `invoke` it calls no
extension: the response shows them as skipped, and the payload is unchanged.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping

import orjson
from msgspec import Struct, structs, to_builtins

from router.contracts.answer import decision_fields
from router.contracts.codec import text_of
from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.raw_json import RawJson
from router.core.clock import steady
from router.delivery.wire.connection import Connection
from router.extensions.model import HealthTracker, PipelineRunner, measure_complexity
from router.extensions.model.modes import executed_fields
from router.operate.admin import ServiceError
from router.operate.admin.service import (
    POLICY_NOT_FOUND,
    Answer,
    RequestFields,
    Service,
    drop_absent,
    missing_field,
)
from router.policies.model import Policy, PolicyTable, ProviderTracker, TraceStep, evaluate


class Trial(Struct, frozen=True, kw_only=True):
    """A dry run. With `is_invoking` False no extension is called, and each is shown as skipped."""

    tenant_id: str
    policy_id: str
    payload: RawJson
    context: Mapping[str, object]  # the fields that conditions read
    is_invoking: bool


class PipelineServices:
    """Answers from the policies that are live now."""

    def __init__(
        self,
        policies: PolicyTable,
        runner: PipelineRunner,
        health: HealthTracker,
        providers: ProviderTracker,
        *,
        timeout_ms: int,
    ) -> None:
        """`timeout_ms`: of a pipeline whose policy names none."""
        self._policies = policies
        self._runner = runner
        self._health = health
        self._providers = providers
        self._timeout_ms = timeout_ms

    def list_services(self) -> tuple[Service, ...]:
        policy = "{tenant_id, policy_id}"
        dry = "{tenant_id, policy_id, payload, context?, invoke?}"
        result = (
            "{ok, result{decision or error, executed_extensions[{type, id, status, "
            "latency_ms}], final_payload, trace[]}}"
        )
        heavy = (
            "{total_extensions, pre_count, validators_count, post_count, complexity_score, "
            "complexity_level, estimated_latency_ms, "
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
            Service(
                "get_pipeline_complexity",
                "How heavy a policy's pipeline is",
                policy,
                heavy,
                self.complexity,
            ),
        )

    async def complexity(self, asked: RequestFields) -> Answer:
        policy = self._policy(asked.policy_tenant(), asked.policy_id())
        return structs.asdict(measure_complexity(policy.pipeline, self._health.p50_ms))

    async def dry_run(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id, payload = asked.tenant_id(), asked.policy_id(), asked.payload()
        if payload is None:
            raise missing_field("payload")
        context = asked.json_object("context") if asked.value("context") is not None else {}
        trial = Trial(
            tenant_id=tenant_id,
            policy_id=policy_id,
            payload=payload,
            context=context,
            is_invoking=asked.flag("invoke"),
        )
        return {"result": await self.run(trial)}

    async def run(self, trial: Trial) -> Answer:
        """Evaluate with the functions that serve requests, without their caches."""
        policy, trace, now = (
            self._policy(trial.tenant_id, trial.policy_id),
            list[TraceStep](),
            steady(),
        )
        states = self._providers.states_of(trial.tenant_id)
        figures = self._providers.measurements.figures_of(trial.tenant_id)
        timeout_ms = policy.timeout_ms or self._timeout_ms

        def decide(request: RouteRequest) -> Decision | Refusal:
            return evaluate(policy, request, states=states, figures=figures, now=now, trace=trace)

        deadline = now + timeout_ms / 1000
        result = await self._runner.dry_run(
            policy, _request(trial), decide, deadline=deadline, invoke=trial.is_invoking
        )
        return {
            **_format_answer(result.answer),
            "executed_extensions": executed_fields(result.executed),
            **_format_payload(result.request.payload),
            "trace": to_builtins(trace),
        }

    def _policy(self, tenant_id: str, policy_id: str) -> Policy:
        policy = self._policies.find(tenant_id, policy_id)
        if policy is None:
            raise ServiceError(
                POLICY_NOT_FOUND, f"Policy not found: {policy_id}", {"policy_id": policy_id}
            )
        return policy


def _request(trial: Trial) -> RouteRequest:
    """A request that carries this payload."""
    return RouteRequest(
        tenant_id=trial.tenant_id,
        message_type="dry_run",
        payload=trial.payload,
        request_key="dry_run",
        answer_id="dry_run",
        policy_id=trial.policy_id,
        context=trial.context,
    )


def _format_answer(answer: Decision | Refusal) -> dict[str, object]:
    if isinstance(answer, Decision):
        return {"decision": decision_fields(answer)}
    return {
        "error": drop_absent(
            {"code": answer.code, "message": answer.message, "details": answer.details}
        )
    }


def _format_payload(payload: RawJson | bytes | None) -> dict[str, object]:
    """The payload as JSON, as it was written; bytes of an extension become text with their encoding
    (docs/reference/contracts.md#bytes).
    """
    if not isinstance(payload, bytes):
        return {"final_payload": payload}
    text, encoding = text_of(payload)
    return drop_absent({"final_payload": text, "payload_encoding": encoding})


# -- Count the services that answer for each extension, by the NATS service protocol:
# `$SRV.PING.{id}`.
#
# `router.sdk.extension` answers it, and so does every service made with a NATS library's micro
# API. A plain subscriber does not, so a count of 0 does not prove that no process serves the
# extension.


PING_TIMEOUT_S = 0.3
MOST_ANSWERS = 10_000


async def count_services(connection: Connection, names: Iterable[str]) -> Mapping[str, int]:
    """Count by name the services that answer within `PING_TIMEOUT_S`; 0 for a name without an
    answer.
    """
    counts: Counter[str] = Counter(dict.fromkeys(names, 0))

    def hear(_subject: str, _reply: str, data: bytes, _headers: Mapping[str, str] | None) -> None:
        name = _read_name(data)
        if name in counts and counts.total() < MOST_ANSWERS:
            counts[name] += 1

    inbox = connection.new_inbox()
    sid = await connection.subscribe_direct(inbox, hear)
    try:
        for name in counts:
            connection.publish_nowait(f"$SRV.PING.{name}", reply=inbox)
        await asyncio.sleep(PING_TIMEOUT_S)
    finally:
        await connection.unsubscribe(sid)
    return counts


def _read_name(data: bytes) -> str:
    """Return the service's name. The server's own message that no service is there has no body."""
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        return ""
    name = answer.get("name") if isinstance(answer, dict) else None
    return name if isinstance(name, str) else ""
