"""A decide request in, an outcome out: read, tenant, memory of answers, policy, decision, answer.
Pure but for its own memories.

    not readable, wrong tenant       -> Dead: an error reply, and a dead letter
    a routing answer that says no    -> Done: it was answered
    a decision                       -> Done, and cached for the same request, sent again
    a policy with extensions         -> an awaitable of the same: they are called first, and after
    a slice of a budget is too small -> an awaitable of the same: a larger one is waited for
    no token of a shared rate limit  -> likewise
    a decision to be pushed          -> an awaitable of the same (`push`): its assignment is an
                                     effect
    a request that follows one up    -> an awaitable of the same: the earlier assignment is looked
                                     up
    a push that is not served here   -> Done, with a warning in the answer
    the message is asked for again   -> an awaitable: the pre-processors run again around the same
                                     decision, for what they leave is kept nowhere

A policy without extensions stays on this synchronous path: no task, future, lock, log line or
metadata object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial

from msgspec.structs import replace

from router.contracts.answer import (
    DID_YOU_MEAN,
    build_hint_warning,
    build_skipped_warning,
    failure,
    success,
    success_protobuf,
    success_with,
    with_message,
)
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.decision import (
    ASSIGNMENT_SKIPPED,
    EXECUTED_EXTENSIONS,
    INVALID_REQUEST,
    UNAUTHORIZED,
    Decision,
    Refusal,
    RouteRequest,
    SkippedAssignment,
)
from router.contracts.extension import InvalidExtensionMessage, content_bytes
from router.contracts.headers import traceparent_in
from router.contracts.malformed import STAGE_TENANT, TENANT_FORBIDDEN
from router.core import ids
from router.core.clock import Clock, steady
from router.core.lease_short import LeaseShort
from router.core.message import Message, Reply
from router.core.outcome import Dead, Done, Fault, Outcome, PublishAck
from router.core.single_flight import SingleFlight
from router.decide.model.choose import PolicyDecider, refuse_unknown_policy
from router.decide.model.idempotency_cache import CacheResult, IdempotencyCache
from router.decide.model.ports import DecideCall, DecideMeter, DecideRules
from router.decide.model.push import (
    REQUEST_ID_TAKEN,
    AssignmentPusher,
    Pushed,
    PushedAssignment,
    RunPipeline,
)
from router.decide.model.read import RequestReading, read
from router.extensions.model import PipelineResult, PipelineRunner
from router.policies.model import ATTEMPTS, Policy, PreviousAttempt
from router.work.model.assignments import AssignmentLookup

# -- The handler.

FOREIGN_TENANT_FAULT = Fault(
    TENANT_FORBIDDEN, "This tenant is not served here", "message.tenant_id", STAGE_TENANT
)


class DecideHandler:
    """Answers decide requests by policy. Called by delivery with one message at a time.

    `assignments`: of earlier requests, for those that follow one up.
    """

    def __init__(
        self,
        decider: PolicyDecider,
        meter: DecideMeter,
        *,
        rules: DecideRules,
        cache: IdempotencyCache,
        push: AssignmentPusher,
        extensions: PipelineRunner,
        assignments: AssignmentLookup,
        now: Clock = steady,
    ) -> None:
        self._decider = decider
        self._meter = meter
        self._limits, self._tenants_allowed = rules.limits, rules.tenants_allowed
        self._pipeline_timeout_s = rules.decide.pipeline_timeout_ms / 1000
        self._read_max_answer = rules.read_max_answer
        self._cache = cache
        self._push = push
        self._extensions = extensions
        self._assignments = assignments
        self._in_progress: SingleFlight[None] = SingleFlight()
        self._now = now

    def __call__(self, message: Message) -> Outcome | Awaitable[Outcome]:
        started = self._now()
        reading = read(message, self._limits)
        if reading.violations:
            self._meter.on_violations(
                message, reading.violations, reading.tenant_id, reading.trace_id
            )
        request = reading.asked
        if isinstance(request, Fault):
            return refuse_request(request, reading, INVALID_REQUEST)
        if self._tenants_allowed and request.tenant_id not in self._tenants_allowed:
            return refuse_request(FOREIGN_TENANT_FAULT, reading, UNAUTHORIZED)
        recalled = self._cache.recall(request, message.data, started)
        is_pushed = request.push_assignment
        if is_pushed:
            is_pushed = self._push.find_skip_reason(request.tenant_id) is None
        call = DecideCall(request, message, started, is_pushed)
        if recalled is not CacheResult.NEW:
            return self._answer_again(recalled, call)
        if PREVIOUS_REQUEST in request.context:
            return self._follow_up(call)
        return self._start(call)

    def _start(self, call: DecideCall) -> Outcome | Awaitable[Outcome]:
        if call.is_pushed:
            return self._start_assignment(call)
        try:
            answer = self._decider.decide(call)
        except LeaseShort as short:
            return self._decide_after(short, call)
        if isinstance(answer, Decision):
            self._cache.remember(call.request, call.message.data, answer, call.started)
        elif isinstance(answer, Policy):
            return self._decide_in_pipeline(answer, call)
        return self._answer(call, answer)

    def _answer(self, call: DecideCall, answer: Decision | Refusal) -> Done:
        request = call.request
        self._meter.on_decision(request, answer, self._now() - call.started)
        if request.push_assignment and isinstance(answer, Decision):
            skipped = self._push.find_skip_reason(request.tenant_id)
            if skipped is not None:
                self._meter.on_assignment_skipped(skipped.reason)
                return Done(reply=reply_without_assignment(request, answer, skipped))
        return Done(reply=reply_to(request, answer))

    def _answer_again(
        self, recalled: Decision | CacheResult, call: DecideCall
    ) -> Outcome | Awaitable[Outcome]:
        """Answer a request that was decided before, from memory.

        A pushed one that is delivered again was not acked; and a server that was away may have lost
        its assignment, with the ack or without it. So its assignment is looked up, or made again of
        the same decision, and published: what is stored already is no second one.
        """
        if call.request.return_message and isinstance(recalled, Decision):
            return self._process_again(recalled, call)
        is_again = call.message.deliveries > 1 or not self._cache.is_of_this_life
        may_be_lost = call.is_pushed and is_again
        if isinstance(recalled, CacheResult) or not may_be_lost:
            return self._answer(call, self._recall(recalled))

        def decide() -> Decision | Refusal | RunPipeline:
            if EXECUTED_EXTENSIONS not in recalled.metadata:
                return recalled
            # The worker gets what they made of the request; what it follows up counted once.
            call.previous = None
            return self._decide_for_push(call)

        conclude = partial(self._conclude_push, call)
        return self._push.push_again(call.request, call.message, decide, conclude)

    def _recall(self, recalled: Decision | CacheResult) -> Decision | Refusal:
        if isinstance(recalled, CacheResult):
            return REQUEST_ID_TAKEN
        self._meter.on_repeat()
        return recalled

    async def _follow_up(self, call: DecideCall) -> Outcome:
        """Handle a request that follows up another of its tenant. Raises BrokerUnavailable while
        that assignment cannot be read.
        """
        call.previous = await find_previous(self._assignments, call.request)
        return await self._start_after_wait(call)

    async def _start_after_wait(self, call: DecideCall) -> Outcome:
        # Its twin may have come meanwhile.
        again = self._cache.recall(call.request, call.message.data, self._now())
        outcome = self._start(call) if again is CacheResult.NEW else self._answer_again(again, call)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def _decide_after(self, short: LeaseShort, call: DecideCall) -> Outcome:
        """Decide when what is leased has grown, or cannot grow. Raises BrokerUnavailable."""
        await short.wait()
        return await self._start_after_wait(call)

    async def _decide_in_pipeline(self, policy: Policy, call: DecideCall) -> Outcome:
        """Decide in the pipeline. Concurrent duplicates wait for the first and get its decision;
        after a refusal each tries itself.
        """
        request, data = call.request, call.message.data
        key = (request.tenant_id, request.request_key)
        if not self._in_progress.try_acquire(key):
            await self._in_progress.acquire(key)
        try:
            recalled = self._cache.recall(request, data, self._now())
            if recalled is CacheResult.NEW:
                ran: Refusal | PipelineResult | None = None
                # here, not in a coroutine of its own: that would be resumed with every answer of
                # an extension
                while ran is None:
                    try:
                        running = self._run_pipeline(policy, call)
                        ran = running if isinstance(running, Refusal) else await running
                    except LeaseShort as short:
                        # what is leased is too little for its decision: it is run again, with more
                        await short.wait()
                return self._conclude_pipeline(call, ran)
        finally:
            self._in_progress.release(key)
        again = self._answer_again(recalled, call)
        return await again if isinstance(again, Awaitable) else again

    def _conclude_pipeline(self, call: DecideCall, ran: Refusal | PipelineResult) -> Done:
        answer = ran if isinstance(ran, Refusal) else ran.answer
        if isinstance(answer, Decision):
            self._cache.remember(call.request, call.message.data, answer, self._now())
        if call.request.return_message and isinstance(ran, PipelineResult):
            return self._answer_with_message(call, answer, ran)
        return self._answer(call, answer)

    def _run_pipeline(
        self, policy: Policy, call: DecideCall
    ) -> Refusal | Awaitable[PipelineResult]:
        """The policy's pipeline around its decision; its time runs from the start of handling."""
        decider, request = self._decider, call.request
        if policy.refusal is None and policy.rate_limit is not None:
            limited = decider.check_rate(policy, request, call.started)
            if limited is not None:
                return limited
        running = self._run_extensions(
            policy,
            call,
            lambda changed: decider.choose(policy, changed, self._now(), call.previous),
        )
        return running if policy.arm is None else self._count_pipeline(policy, call, running)

    def _run_extensions(
        self, policy: Policy, call: DecideCall, decide: Callable[[RouteRequest], Decision | Refusal]
    ) -> Awaitable[PipelineResult]:
        timeout_s = (
            self._pipeline_timeout_s if policy.timeout_ms is None else policy.timeout_ms / 1000
        )
        return self._extensions.run(
            policy,
            call.request,
            decide,
            deadline=call.started + timeout_s,
            traceparent=traceparent_in(call.message.headers),
            size=len(call.message.data),
        )

    async def _count_pipeline(
        self, policy: Policy, call: DecideCall, running: Awaitable[PipelineResult]
    ) -> PipelineResult:
        result = await running
        self._decider.count_arm(policy, call, result.answer)
        return result

    def _process_again(self, decided: Decision, call: DecideCall) -> Outcome | Awaitable[Outcome]:
        """Answer a request that was decided before and asks for the message.

        The policy in force now says who may change it. The decision stands, so no token is taken
        and nothing reserved.
        """
        policy = self._decider.find_policy(call.request)
        if policy is None:
            return self._answer(call, refuse_unknown_policy(call.request))
        if policy.pipeline.is_empty:
            return self._answer(call, self._recall(decided))
        return self._run_pre_processors(policy, decided, call)

    async def _run_pre_processors(
        self, policy: Policy, decided: Decision, call: DecideCall
    ) -> Outcome:
        """The validators, too: what one of them would refuse now goes to no provider."""
        before = replace(policy, pipeline=replace(policy.pipeline, post=()))
        ran = await self._run_extensions(before, call, lambda _: decided)
        if isinstance(ran.answer, Refusal):
            return self._answer(call, ran.answer)
        return self._answer_with_message(call, self._recall(decided), ran)

    def _answer_with_message(
        self, call: DecideCall, answer: Decision | Refusal, ran: PipelineResult
    ) -> Done:
        if isinstance(answer, Refusal) or not ran.is_preprocessed:
            return self._answer(call, answer)
        reply = reply_with_message(call.request, answer, ran.request, self._read_max_answer())
        if reply is None:
            return self._answer(call, MESSAGE_TOO_LARGE)
        self._meter.on_decision(call.request, answer, self._now() - call.started)
        return Done(reply=reply)

    def _start_assignment(self, call: DecideCall) -> Outcome | Awaitable[Outcome]:
        refusal = self._push.find_refusal(call.request)
        if refusal is not None:
            return self._answer(call, refusal)
        return self._push.push(
            call.request,
            call.message,
            partial(self._decide_for_push, call),
            partial(self._conclude_push, call),
        )

    def _decide_for_push(self, call: DecideCall) -> Decision | Refusal | RunPipeline:
        decided = self._decider.decide(call)
        if not isinstance(decided, Policy):
            return decided
        return lambda: self._run_pipeline(decided, call)

    def _conclude_push(self, call: DecideCall, pushed: Pushed) -> Outcome:
        """The stored assignment is the decision: it is stored already, and published as an effect
        of this message.
        """
        if not isinstance(pushed, PushedAssignment):
            return self._answer(call, pushed)
        if pushed.is_repeat:
            self._meter.on_repeat()
        request, seconds = call.request, self._now() - call.started

        def remember(_: Sequence[PublishAck]) -> None:
            # Not before its assignment is published: until then the answer may still be that there
            # is no room for it.
            data = call.message.data
            self._cache.remember(request, data, pushed.decision, self._now(), pushed.content)
            self._meter.on_decision(request, pushed.decision, seconds)

        return Done((pushed.effect,), reply_to(request, pushed.decision), remember)


# -- The request that another one follows up: `context.previous_request_id` names it, and its
# known assignment says which provider had it. So a policy's fallback rule can send the request
# to the same provider again while its retries last (docs/reference/policies.md#retry).

_DIGITS = 4  # more attempts than any rule allows, and a number that is read at once
PREVIOUS_REQUEST = "previous_request_id"


async def find_previous(
    assignments: AssignmentLookup, request: RouteRequest
) -> PreviousAttempt | None:
    """The previous attempt; None: the request names no assignment of its own tenant. Raises
    BrokerUnavailable.
    """
    named = request.context.get(PREVIOUS_REQUEST)
    if not isinstance(named, str) or not ids.is_opaque(named):
        return None
    assignment_id = assignment_id_of(request.tenant_id, named)
    assignment = assignments.recall(assignment_id) or await assignments.lookup(
        assignment_id, _return_same
    )
    if assignment is None or assignment.tenant_id != request.tenant_id:
        return None
    return PreviousAttempt(assignment.provider_id, _attempts(assignment))


def _attempts(assignment: Assignment) -> int:
    """How often the provider was tried; a first decision has no count. An extension may have
    written something else there.
    """
    told = assignment.decision.metadata.get(ATTEMPTS, "1")
    return int(told[:_DIGITS]) if told.isascii() and told.isdigit() else 1


def _return_same(assignment: Assignment | None) -> Assignment | None:
    return assignment


# -- The reply to a requester: a decision, a refusal, or why the request is invalid
# (docs/reference/contracts.md#answers).


def reply_to(request: RouteRequest, answer: Decision | Refusal) -> Reply:
    """The answer to a request that could be read; protobuf where it was asked for and there is a
    decision.
    """
    if isinstance(answer, Decision):
        is_plain = not request.hints and not request.wants_protobuf  # nearly always
        data = (
            success(answer, request.answer_id, request.trace_id)
            if is_plain
            else _success(request, answer)
        )
    else:
        data = failure(
            answer.code,
            answer.message,
            _details(answer.details, request.hints),
            request.answer_id,
            request.trace_id,
        )
    return Reply(data, request.trace_id, request.tenant_id)


MESSAGE_TOO_LARGE = Refusal(
    INVALID_REQUEST,
    "The message as the pre-processors left it is larger than an answer may be",
    {"field": "return_message", "reason": "message_too_large"},
)
NO_INBOX = Refusal(
    INVALID_REQUEST,
    "The answer holds a message, which goes to an inbox of the requester's own alone",
    {"field": "return_message", "reason": "no_inbox"},
)


def reply_with_message(
    request: RouteRequest, decision: Decision, left: RouteRequest, most: int
) -> Reply | None:
    """The decision with the message as the pre-processors left it; None: it has more than `most`
    bytes.

    Many clients read the reply subject. There a decision alone would look like one of a policy that
    leaves the message as it was.
    """
    plain = reply_to(request, decision)
    try:
        data = with_message(plain.data, content_bytes(left, {}))
    except InvalidExtensionMessage:  # larger than any message
        return None
    return (
        replace(plain, data=data, public=reply_to(request, NO_INBOX).data)
        if len(data) <= most
        else None
    )


def _success(request: RouteRequest, decision: Decision) -> bytes:
    if request.wants_protobuf:
        return success_protobuf(decision)
    return success_with(_warnings(request.hints), decision, request.answer_id, request.trace_id)


def reply_without_assignment(
    request: RouteRequest, decision: Decision, skipped: SkippedAssignment
) -> Reply:
    """The answer to a request that was to be pushed, and was only decided. In protobuf the
    decision's metadata say so.
    """
    if request.wants_protobuf:
        data = success_protobuf(
            replace(decision, metadata={**decision.metadata, ASSIGNMENT_SKIPPED: skipped.reason})
        )
    else:
        data = success_with(
            _warnings(request.hints, skipped), decision, request.answer_id, request.trace_id
        )
    return Reply(data, request.trace_id, request.tenant_id)


def _warnings(
    hints: Mapping[str, str], skipped: SkippedAssignment | None = None
) -> list[dict[str, object]]:
    hint_warnings = [build_hint_warning(name, meant) for name, meant in hints.items()]
    return hint_warnings if skipped is None else [build_skipped_warning(skipped), *hint_warnings]


def _details(
    details: Mapping[str, object] | None, hints: Mapping[str, str]
) -> Mapping[str, object] | None:
    return {**(details or {}), DID_YOU_MEAN: dict(hints)} if hints else details


def refuse_request(fault: Fault, reading: RequestReading, code: str) -> Dead:
    """An error reply and a dead letter: these bytes can never be decided here
    (docs/reference/contracts.md#failure-invalid).
    """
    details = {"field": fault.field} if fault.field is not None else None
    data = failure(
        code, fault.message, _details(details, reading.hints), reading.answer_id, reading.trace_id
    )
    return Dead(fault, reply=Reply(data, reading.trace_id, reading.tenant_id))
