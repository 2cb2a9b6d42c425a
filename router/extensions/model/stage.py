"""One run of a pipeline, stage by stage: extensions of one kind, one after the other, or in
parallel when the policy says `parallel`.

    pre ── validators ── the decision, on the request as they left it ── post; the first refusal ends it
    condition does not hold -> skipped
    called -> its answer changes the request; its mode decides on a failure or a rejection (`modes`)
    the deadline is over -> deadline_exceeded, whatever the mode

In parallel, all receive the request as it was at the start of the stage; their changes are applied
in the document's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from msgspec import Struct

from router.contracts.decision import Decision, Refusal
from router.contracts.extension import (
    InvalidExtensionMessage,
    ProcessorAnswer,
    ValidatorAnswer,
    read_processor_answer,
    read_validator_answer,
)
from router.contracts.request import RouteRequest
from router.core.clock import Clock
from router.extensions.model.context import PipelineContext
from router.extensions.model.entry import POST, PRE, VALIDATOR
from router.extensions.model.failure import EXTENSION_ERROR, EXTENSION_NOT_FOUND, ExtensionFailure
from router.extensions.model.invoke import ExtensionCall, Invoker
from router.extensions.model.modes import (
    ERROR,
    PIPELINE_LATE,
    SKIPPED,
    VALIDATION_REJECTED,
    WARN,
    ExecutedExtension,
    ExtensionResult,
    refusal_of,
    status_of,
)
from router.extensions.model.ports import ExtensionMeter
from router.extensions.model.registry import ExtensionRegistry
from router.policies.model.conditions import NO_VALUE, ConditionInput, match_always
from router.policies.model.policy import ExtensionUse, Policy

Decide = Callable[[RouteRequest], Decision | Refusal]


class PipelineDependencies(Struct, frozen=True):
    """What every stage of every pipeline uses."""

    registry: ExtensionRegistry
    invoker: Invoker
    meter: ExtensionMeter
    environment: str | None
    now: Clock


class PipelineRun(Struct, frozen=True, gc=False):
    """One run of a pipeline. `deadline` is on `dependencies.now`; `executed` grows with each
    extension.
    """

    dependencies: PipelineDependencies
    policy: Policy
    context: PipelineContext
    head: bytes  # of every call
    deadline: float
    executed: list[ExecutedExtension]

    async def answer(self, decide: Decide) -> Decision | Refusal:
        """`decide` is called once, when the validators are through. Raises BrokerUnavailable.

        One coroutine for all stages: every coroutine between a call and its task would be resumed
        with every answer.
        """
        pipeline = self.policy.pipeline
        decision: Decision | Refusal = PIPELINE_LATE
        for kind, uses in (
            (PRE, pipeline.pre),
            (VALIDATOR, pipeline.validators),
            (POST, pipeline.post),
        ):
            if kind == POST and isinstance(decision := self._decide(decide), Refusal):
                return decision
            if pipeline.parallel and len(uses) > 1:
                if (refusal := await self._call_parallel(kind, uses)) is not None:
                    return refusal
                continue
            for use in uses:
                asked = self.context.request
                if (
                    refusal := self._apply(kind, use, await self._call_extension(kind, use), asked)
                ) is not None:
                    return refusal
        return decision

    def _decide(self, decide: Decide) -> Decision | Refusal:
        if self.dependencies.now() >= self.deadline:
            return PIPELINE_LATE
        decision = decide(self.context.request)
        if isinstance(decision, Decision):
            self.context.set_decision(decision)
        return decision

    async def _call_parallel(self, kind: str, uses: Sequence[ExtensionUse]) -> Refusal | None:
        """Call all of them to the end, also when one has failed, so that every outcome is reported."""
        asked = self.context.request
        try:
            async with asyncio.TaskGroup() as tasks:
                calls = [tasks.create_task(self._call_extension(kind, use)) for use in uses]
        except BaseExceptionGroup as group:
            raise group.exceptions[0] from None
        refusals = [
            self._apply(kind, use, call.result(), asked)
            for use, call in zip(uses, calls, strict=True)
        ]
        return next((refusal for refusal in refusals if refusal is not None), None)

    async def _call_extension(self, kind: str, use: ExtensionUse) -> ExtensionResult | None:
        """Call one extension, and record the outcome. None: its condition does not hold, so it is
        skipped.
        """
        request, now = self.context.request, self.dependencies.now
        if use.applies is not match_always and not use.applies(
            ConditionInput(request, request.context.get("status", NO_VALUE))
        ):
            self.executed.append(ExecutedExtension(kind, use.id, SKIPPED, 0.0))
            return None
        began = now()
        try:
            read = (
                read_processor_answer
                if kind == PRE
                else read_validator_answer
                if kind == VALIDATOR
                else self.context.read_additions
            )
            came: ExtensionResult = await self.dependencies.invoker.invoke(
                self._build_call(kind, use), read
            )
        except ExtensionFailure as failure:
            came = failure
        except InvalidExtensionMessage as exc:
            came = ExtensionFailure(
                EXTENSION_ERROR, f"it cannot be asked: {exc}", "refused", was_sent=False
            )
        self.executed.append(
            ExecutedExtension(kind, use.id, status_of(use, came), (now() - began) * 1000)
        )
        return came

    def _build_call(self, kind: str, use: ExtensionUse) -> ExtensionCall:
        means, matter = self.dependencies, self.context
        request, policy_id = matter.request, self.policy.policy_id
        route = means.registry.find(
            use.id,
            kind=kind,
            tenant_id=request.tenant_id,
            policy_id=policy_id,
            environment=means.environment,
            key=request.request_key,
        )
        if route is None:
            raise ExtensionFailure(
                EXTENSION_NOT_FOUND,
                "it is not registered, or not for a request like this",
                "not_found",
                was_sent=False,
            )
        timeout_ms = route.timeout_ms if use.timeout_ms is None else use.timeout_ms
        retry = route.retry if use.retry is None else use.retry
        # the registry's, and over it the policy's
        config = {**route.config, **use.config} if route.config else use.config
        return ExtensionCall(
            route,
            matter.build_request(config),
            self.head,
            timeout_ms / 1000,
            retry,
            self.deadline,
            request.tenant_id,
        )

    def _apply(
        self, kind: str, use: ExtensionUse, came: ExtensionResult | None, asked: RouteRequest
    ) -> Refusal | None:
        if type(came) is ProcessorAnswer:
            self.context.apply_answer(asked, came)
        elif type(came) is dict:
            self.context.additions.update(came)
        elif type(came) is ValidatorAnswer:
            return None if came.is_ok else self._apply_mode(kind, use, came)
        elif isinstance(came, ExtensionFailure):
            return (
                PIPELINE_LATE
                if self.dependencies.now() >= self.deadline
                else self._apply_mode(kind, use, came)
            )
        return None

    def _apply_mode(
        self, kind: str, use: ExtensionUse, came: ExtensionFailure | ValidatorAnswer
    ) -> Refusal | None:
        status = status_of(use, came)
        if status == ERROR:
            return refusal_of(kind, use, came)
        if status == WARN:
            code = came.code if isinstance(came, ExtensionFailure) else VALIDATION_REJECTED
            self.dependencies.meter.on_tolerated(use.id, kind, self.policy.policy_id, code)
        return None
