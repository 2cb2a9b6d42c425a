"""One run of a pipeline: the request on its way, the slots that bound runs, and stage by stage the
extensions of one kind, one after the other or in parallel.

    pre ── validators ── the decision, on the request as they left it ── post; the first refusal ends it
    condition does not hold -> skipped
    called -> its answer changes the request; its mode decides on a failure or a rejection (`modes`)
    the deadline is over -> deadline_exceeded, whatever the mode

In parallel, all receive the request as it was at the start of the stage; their changes are applied
in the document's order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.content import is_same_payload
from router.contracts.decision import OF_CANDIDATE, OVERLOADED, Decision, Refusal, RouteRequest
from router.contracts.extension import (
    InvalidExtensionMessage,
    ProcessorAnswer,
    ValidatorAnswer,
    message_bytes,
    metadata_bytes,
    opening_bytes,
    read_processor_answer,
    read_validator_answer,
    request_bytes,
)
from router.core import ids
from router.core.clock import Clock
from router.core.fair_queue import FairQueue
from router.core.fair_slots import FairSlots
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

# -- The request on its way through a pipeline: what extensions receive, and what they may change.
#
#     a pre-processor    replaces payload, message metadata and message type; what it answers as
#                        metadata goes into the context
#     a post-processor   adds to the decision's metadata: all strings, and no key that stands there
#                        already, or that only a policy says
#
# An answer never changes the tenant, the policy, ids, constraints or an assignment's subject. An
# extension that returns what it was sent has added nothing, also where it wrote the payload anew:
# the same values are no change, and the bytes that came go on. The request is encoded once until
# it changes: the next extensions get the same bytes.


# the router adds them: an extension that returns them has added nothing
OWN = ("policy_id", "decision")


class PipelineContext:
    """One request, and the decision once there is one."""

    def __init__(self, request: RouteRequest, policy_id: str, traceparent: str | None) -> None:
        self.request = request
        trace_id = request.trace_id or ids.derived_uuid(request.tenant_id, request.request_key)
        self.headers = {"trace_id": trace_id, "tenant_id": request.tenant_id}
        if traceparent is not None:
            self.headers["traceparent"] = traceparent
        self.additions: dict[str, str] = {}  # to the decision's metadata
        self._policy_id = policy_id
        self._decision: Decision | None = None
        self._opening = opening_bytes(trace_id, request.tenant_id)
        self._message: bytes | None = None
        self._metadata: bytes | None = None

    def build_request(self, config: Mapping[str, object]) -> bytes:
        """What an extension with this config is asked. Raises InvalidExtensionMessage when it is
        too large to be.
        """
        if self._message is None:
            self._message = message_bytes(self.request)
        if self._metadata is None:
            self._metadata = metadata_bytes(self.request.context, self._policy_id, self._decision)
        return request_bytes(self._opening, self._message, self._metadata, config)

    def apply_answer(self, asked: RouteRequest, changed: ProcessorAnswer) -> None:
        """What a pre-processor answered to `asked`: only what it changed counts, for neighbours may
        have changed the rest.
        """
        message = changed.message
        fields: dict[str, object] = {}
        if message.payload is not None and not is_same_payload(message.payload, asked.payload):
            fields.update(payload=message.payload, payload_ref=None)
        if message.message_type and message.message_type != asked.message_type:
            fields["message_type"] = message.message_type
        if message.metadata is not None and message.metadata != asked.metadata:
            fields["metadata"] = message.metadata
        if news := _find_changes(changed.metadata, asked.context):
            fields["context"] = {**self.request.context, **news}
        if fields:
            self.request = replace(self.request, **fields)
            self._message = self._metadata = None

    def set_decision(self, decision: Decision) -> None:
        """Set the decision: from now on extensions receive it."""
        self._decision = decision
        self._metadata = None

    def read_additions(self, data: bytes) -> dict[str, str]:
        """What a post-processor adds. Raises InvalidExtensionMessage, also for what is no text."""
        news = _find_changes(read_processor_answer(data).metadata, self.request.context)
        for name, value in news.items():
            if not isinstance(value, str):
                raise InvalidExtensionMessage(f"metadata.{name}: a decision's metadata is all text")
        return {name: text for name, text in news.items() if name not in OF_CANDIDATE}


def _find_changes(metadata: Mapping[str, Any], context: Mapping[str, object]) -> dict[str, Any]:
    """The entries that were not sent, or were sent with another value."""
    return {
        name: value
        for name, value in metadata.items()
        if name not in OWN and not (name in context and context[name] == value)
    }


# -- One run of a pipeline, stage by stage: extensions of one kind, one after the other, or in
# parallel when the policy says `parallel`.


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


# -- Limits of this process: pipelines that run at once, requests that wait for a slot, and each
# tenant's share of both.
#
# try_acquire ── a slot is free, and the tenant holds fewer than are free ──> the pipeline runs
# enqueue ── the tenant's share of the queue has room ──> it waits; freed slots go to the waiting tenants in turn
#         ── another of its tenant gives way (`core.fair_queue`) ──> it waits instead of that one
# neither ──> `TOO_MANY_PIPELINES`: the request is answered `overloaded`
#
# A tenant may hold at most as many slots as are free, and the same holds for the queue, by requests
# and by bytes: a lone tenant gets half, two get a third each, and the next one always finds room.
# (Choudhury and Hahne's dynamic thresholds: https://doi.org/10.1109/90.664262) Slots that were
# borrowed come back only when their calls end, so a free part must remain.


RETRY_AFTER_MS = 1_000
TOO_MANY_PIPELINES = Refusal(
    OVERLOADED,
    "Too many requests with extensions are under way here; try again",
    {"retry_after_ms": RETRY_AFTER_MS},
)
QUEUE_BYTES = 64 * 1024 * 1024

# whether its tenant was given a slot; False: its place was given to another of its tenant
SlotWaiter = asyncio.Future[bool]


class PipelineSlots:
    """`try_acquire`, or else `enqueue` and `wait`; then `release`, whatever happened."""

    def __init__(
        self,
        slots: int,
        queue: int,
        queue_bytes: int = QUEUE_BYTES,
        *,
        find_place: Callable[[str], str] = str,
    ) -> None:
        """`find_place`: a tenant's place in the turns, its own or one that it shares. The methods
        take that.
        """
        self.find_place = find_place
        self._slots = FairSlots(slots)
        self._queue: FairQueue[tuple[str, SlotWaiter]] = FairQueue(queue, queue_bytes)

    def try_acquire(self, tenant: str) -> bool:
        """Take a slot now, if the tenant may have one and none of its requests waits."""
        return not self._queue.has_waiting(tenant) and self._slots.acquire(tenant)

    def enqueue(self, tenant: str, size: int, *, goes_first: bool = False) -> SlotWaiter | None:
        """A place in the queue for a request of so many bytes; None: the tenant's share is taken."""
        waiter: SlotWaiter = asyncio.get_running_loop().create_future()
        queue, item = self._queue, (tenant, waiter)
        if queue.put(tenant, item, size, goes_first=goes_first):
            return waiter
        replaced = queue.put_instead(tenant, item, size, goes_first=goes_first)
        if replaced is None:
            return None
        if not replaced[1].done():
            replaced[1].set_result(False)
        return waiter

    async def wait(self, tenant: str, waiter: SlotWaiter) -> bool:
        """Wait for a slot; False: another request has the place. Raises CancelledError: then the
        request holds none.
        """
        try:
            return await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled() and waiter.result():
                self.release(tenant)  # it was handed over in the same turn of the loop
            raise

    def release(self, tenant: str) -> None:
        """Free the slot, and give it to the waiting tenants in turn."""
        self._slots.release(tenant)
        slots = self._slots
        while slots.has_free and (waiting := self._queue.take_of(slots.has_room)) is not None:
            tenant, waiter = waiting
            if not waiter.done():  # else its request was cancelled while it waited
                slots.acquire(tenant)
                waiter.set_result(True)
