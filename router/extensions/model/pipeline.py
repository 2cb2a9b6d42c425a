"""The pipeline of one request: pre-processors, validators, the decision, post-processors, all
inside one deadline.

    request ── pre ──> changed ── validators ──> decide ──> Decision ── post ──> with their additions, and `executed_extensions`
                 └── a Refusal, from the first stage that refuses

The state of a run (deadline, what was executed, whether it is a dry run) is kept here and in
nothing that an extension or a client can write: a request's metadata that speaks of it is metadata.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.decision import EXECUTED_EXTENSIONS, Decision, Refusal, RouteRequest
from router.core.clock import Clock, steady
from router.extensions.model.entry import POST, PRE, VALIDATOR
from router.extensions.model.invoke import Invoker
from router.extensions.model.modes import SKIPPED, ExecutedExtension, executed_text
from router.extensions.model.ports import NULL_METER, ExtensionMeter
from router.extensions.model.registry import ExtensionRegistry
from router.extensions.model.stage import (
    TOO_MANY_PIPELINES,
    Decide,
    PipelineContext,
    PipelineDependencies,
    PipelineRun,
    PipelineSlots,
)
from router.policies.model.policy import Policy


class PipelineResult(Struct, frozen=True, gc=False):
    """A pipeline's result. `request`: as the pre-processors left it; this request was decided, and
    is assigned.
    """

    answer: Decision | Refusal
    executed: tuple[ExecutedExtension, ...]
    request: RouteRequest

    @property
    def is_preprocessed(self) -> bool:
        """Whether a pre-processor was called: the message may be another one."""
        return any(one.type == PRE and one.status != SKIPPED for one in self.executed)


class PipelineRunner:
    """Runs pipelines. `environment`: what the registry's rules may ask for. Its clock is the
    deadline's.
    """

    def __init__(
        self,
        registry: ExtensionRegistry,
        invoker: Invoker,
        *,
        slots: PipelineSlots | None = None,
        meter: ExtensionMeter,
        environment: str | None = None,
        now: Clock = steady,
    ) -> None:
        self._dependencies = PipelineDependencies(registry, invoker, meter, environment, now)
        self._dry_dependencies = PipelineDependencies(
            registry, invoker.make_dry_invoker(), NULL_METER, environment, now
        )
        self._slots = slots

    async def run(
        self,
        policy: Policy,
        request: RouteRequest,
        decide: Decide,
        *,
        deadline: float,
        traceparent: str | None = None,
        size: int = 0,
    ) -> PipelineResult:
        """`decide` is called once, when the validators are through. Raises BrokerUnavailable: then
        nothing was decided for good.

        `size`: bytes of the request's message, which count while it waits for a slot.
        """
        if policy.refusal is not None:
            return PipelineResult(policy.refusal, (), request)
        run, slots = (
            _start_run(
                self._dependencies,
                policy,
                PipelineContext(request, policy.policy_id, traceparent),
                deadline,
            ),
            self._slots,
        )
        if slots is None:
            return _finish(run, await run.answer(decide))
        # once: a tenant may earn a place of its own meanwhile
        tenant = slots.find_place(request.tenant_id)
        if not slots.try_acquire(tenant):
            waiter = slots.enqueue(tenant, size, goes_first=policy.is_high)
            if waiter is None or not await slots.wait(tenant, waiter):
                return PipelineResult(TOO_MANY_PIPELINES, (), request)
        try:
            return _finish(run, await run.answer(decide))
        finally:
            slots.release(tenant)

    async def dry_run(
        self,
        policy: Policy,
        request: RouteRequest,
        decide: Decide,
        *,
        deadline: float,
        invoke: bool,
    ) -> PipelineResult:
        """The same without counting: no breaker, health, metric or slot. Without `invoke` every
        extension is skipped.
        """
        if policy.refusal is not None:
            return PipelineResult(policy.refusal, (), request)
        if not invoke:
            return PipelineResult(decide(request), _skip_all(policy), request)
        run = _start_run(
            self._dry_dependencies,
            policy,
            PipelineContext(request, policy.policy_id, None),
            deadline,
        )
        return _finish(run, await run.answer(decide))


def _start_run(
    means: PipelineDependencies, policy: Policy, matter: PipelineContext, deadline: float
) -> PipelineRun:
    return PipelineRun(means, policy, matter, means.invoker.head(matter.headers), deadline, [])


def _finish(run: PipelineRun, answer: Decision | Refusal) -> PipelineResult:
    """The result: the answer with the post-processors' additions, and the executed extensions."""
    if isinstance(answer, Decision):
        metadata = {**run.context.additions, **answer.metadata}
        if run.executed:
            metadata[EXECUTED_EXTENSIONS] = executed_text(run.executed)
        answer = replace(answer, metadata=metadata)
    return PipelineResult(answer, tuple(run.executed), run.context.request)


def _skip_all(policy: Policy) -> tuple[ExecutedExtension, ...]:
    pipeline = policy.pipeline
    stages = ((PRE, pipeline.pre), (VALIDATOR, pipeline.validators), (POST, pipeline.post))
    return tuple(
        ExecutedExtension(kind, use.id, SKIPPED, 0.0) for kind, uses in stages for use in uses
    )
