"""What the admin services show: health of extensions, states of breakers, complexity and dry run of a policy.

A dry run stores no session, uses up no rate limit and counts nothing. Without `invoke` it calls no extension: the response shows
them as skipped, and the payload is unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import structs, to_builtins

from router.contracts.answer import decision_fields
from router.contracts.codec import text_of
from router.contracts.decision import Decision, Refusal
from router.contracts.request import RouteRequest
from router.core.clock import steady
from router.operations.admin import ServiceError
from router.operations.admin.pipeline import Trial
from router.operations.admin.service import Answer, drop_absent
from router.operations.admin.service_error import POLICY_NOT_FOUND
from router.routing.breakers import CLOSED
from router.routing.extensions import ExtensionRegistry, HealthTracker, PipelineRunner, measure_complexity
from router.routing.extensions.modes import executed_fields
from router.routing.policy import Policy, PolicyTable, ProviderTracker, TraceStep, evaluate
from router.services.breakers import Breakers, build_closed_state


class ExtensionHealth:
    """`operations.admin.instances.HealthSource`: the window's figures with the breaker's state beside them."""

    def __init__(self, registry: ExtensionRegistry, health: HealthTracker, breakers: Breakers) -> None:
        self._registry = registry
        self._health = health
        self._breakers = breakers

    def health(self) -> Mapping[str, Answer]:
        states = self._breakers.extension_states()
        return {extension_id: self._line(extension_id, states.get(extension_id, {})) for extension_id in sorted(self._registry.get_all())}

    def _line(self, extension_id: str, breaker: Mapping[str, object]) -> Answer:
        figures = structs.asdict(self._health.figures(extension_id))
        state = {"circuit_breaker_state": breaker.get("state", CLOSED), "circuit_breaker_opened_at_ms": breaker.get("opened_at_ms")}
        return drop_absent({**figures, **state})


class BreakerStates:
    """`operations.admin.instances.BreakerSource`: each registered extension has a state, also before its first call."""

    def __init__(self, registry: ExtensionRegistry, breakers: Breakers) -> None:
        self._registry = registry
        self._breakers = breakers

    def extension_states(self) -> Mapping[str, Answer]:
        known = self._breakers.extension_states()
        return {name: known.get(name) or build_closed_state(name) for name in sorted(self._registry.get_all())}

    def provider_states(self) -> Mapping[str, Answer]:
        return self._breakers.provider_states()


class LivePipelines:
    """`operations.admin.pipeline.PipelineInspector` over the policies in force."""

    def __init__(
        self, policies: PolicyTable, runner: PipelineRunner, health: HealthTracker, providers: ProviderTracker, *, timeout_ms: int
    ) -> None:
        """`timeout_ms`: of a pipeline whose policy names none."""
        self._policies = policies
        self._runner = runner
        self._health = health
        self._providers = providers
        self._timeout_ms = timeout_ms

    def complexity(self, tenant_id: str, policy_id: str) -> Answer:
        return structs.asdict(measure_complexity(self._policy(tenant_id, policy_id).pipeline, self._health.p50_ms))

    async def dry_run(self, trial: Trial) -> Answer:
        """Evaluate with the functions that serve requests, without their caches."""
        policy, trace, now = self._policy(trial.tenant_id, trial.policy_id), list[TraceStep](), steady()
        states = self._providers.states_of(trial.tenant_id)
        timeout_ms = policy.timeout_ms or self._timeout_ms

        def decide(request: RouteRequest) -> Decision | Refusal:
            return evaluate(policy, request, states=states, now=now, trace=trace)

        deadline = now + timeout_ms / 1000
        result = await self._runner.dry_run(policy, _request(trial), decide, deadline=deadline, invoke=trial.is_invoking)
        return {
            **_format_answer(result.answer),
            "executed_extensions": executed_fields(result.executed),
            **_format_payload(result.request.payload),
            "trace": to_builtins(trace),
        }

    def _policy(self, tenant_id: str, policy_id: str) -> Policy:
        policy = self._policies.find(tenant_id, policy_id)
        if policy is None:
            raise ServiceError(POLICY_NOT_FOUND, f"Policy not found: {policy_id}", {"policy_id": policy_id})
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
    return {"error": drop_absent({"code": answer.code, "message": answer.message, "details": answer.details})}


def _format_payload(payload: object) -> dict[str, object]:
    """The payload as JSON; bytes of an extension become text with their encoding (docs/contracts.md#bytes)."""
    if not isinstance(payload, bytes):
        return {"final_payload": payload}
    text, encoding = text_of(payload)
    return drop_absent({"final_payload": text, "payload_encoding": encoding})
