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

A policy without extensions stays on this synchronous path: no task, future, lock, log line or
metadata object.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

from msgspec import Struct

from router.budgets.model import TenantBudgets
from router.contracts.assignment import Assignment, assignment_id_of
from router.contracts.decision import (
    EXECUTED_EXTENSIONS,
    EXPIRED,
    INVALID_REQUEST,
    POLICY_NOT_FOUND,
    RATE_LIMIT_EXCEEDED,
    UNAUTHORIZED,
    Decision,
    Refusal,
    SkippedAssignment,
)
from router.contracts.header_rules import Violation
from router.contracts.headers import traceparent_in
from router.contracts.malformed import STAGE_TENANT, TENANT_FORBIDDEN
from router.contracts.request import RouteRequest
from router.core import ids
from router.core.clock import Clock, steady
from router.core.lease_short import LeaseShort
from router.core.message import Message
from router.core.outcome import Done, Fault, Outcome, PublishAck
from router.core.single_flight import SingleFlight
from router.decide.model.choose import ProviderChooser
from router.decide.model.idempotency_cache import CacheResult, IdempotencyCache
from router.decide.model.push import (
    REQUEST_ID_TAKEN,
    SWITCHED_OFF,
    AssignmentPusher,
    Pushed,
    PushedAssignment,
    RunPipeline,
)
from router.decide.model.read import RequestLimits, read
from router.decide.model.recorder import Evaluator
from router.decide.model.replies import refuse_request, reply_to, reply_without_assignment
from router.decide.settings import DecideConfig
from router.delivery.settings import AdmissionConfig
from router.extensions.model import PipelineResult, PipelineRunner
from router.policies.model import (
    ATTEMPTS,
    Policy,
    PolicyFinder,
    PreviousAttempt,
    ProviderStates,
    RateLimiter,
    RateLimits,
    Sessions,
    find_arm,
)
from router.policies.model.canary_meter import CanaryMeter
from router.policies.model.measurements import LearnedFigures
from router.work.model.assignments import AssignmentLookup

# -- The handler.

TOO_OLD = Refusal(EXPIRED, "The request waited longer than decide.max_age_ms")
NO_LONGER_AWAITED = Refusal(
    EXPIRED,
    "The request waited longer than admission.patience_ms: its answer is no longer waited for",
)
REPLY_TO = "Reply-To"
FOREIGN_TENANT_FAULT = Fault(
    TENANT_FORBIDDEN, "This tenant is not served here", "message.tenant_id", STAGE_TENANT
)


class DecideMeter(Protocol):
    """Counts decisions. Called for every message, so it must be cheap."""

    def on_decision(
        self, request: RouteRequest, answer: Decision | Refusal, seconds: float
    ) -> None: ...

    def on_violations(
        self,
        message: Message,
        violations: tuple[Violation, ...],
        tenant_id: str | None,
        trace_id: str | None,
    ) -> None:
        """The ids as they were read from the message; None: they could not be."""

    def on_repeat(self) -> None: ...

    def on_assignment_skipped(self, reason: str) -> None:
        """A requested assignment was not made; the answer says why."""

    def on_session(self, outcome: str) -> None: ...


class DecideRules(Struct, frozen=True):
    """The settings that the handler needs."""

    limits: RequestLimits = RequestLimits()
    tenants_allowed: frozenset[str] = frozenset()  # empty = all
    decide: DecideConfig = DecideConfig()
    admission: AdmissionConfig = AdmissionConfig()


class DecideHandler:
    """Answers decide requests by policy. Called by delivery with one message at a time."""

    def __init__(
        self,
        policies: PolicyFinder,
        meter: DecideMeter,
        *,
        rules: DecideRules = DecideRules(),  # noqa: B008 - frozen
        cache: IdempotencyCache | None = None,
        sessions: Sessions | None = None,
        rates: RateLimiter | None = None,
        push: AssignmentPusher | None,
        extensions: PipelineRunner,
        assignments: AssignmentLookup | None,
        states: Callable[[str], ProviderStates],
        on_decision: Callable[[str, Decision], None],
        evaluate: Evaluator,
        figures: Callable[[str], Mapping[str, LearnedFigures]],
        canaries: CanaryMeter,
        budgets: Mapping[str, TenantBudgets],
        read_age: Callable[[float], float],
        now: Clock = steady,
    ) -> None:
        """What a decision is counted by has no default: a missing call would pass in silence.

        `read_age`: seconds since a stored time, by the clock of the server that stores: this
        machine's may be wrong.
        """
        self._policies = policies
        self._meter = meter
        self._limits, self._tenants_allowed = rules.limits, rules.tenants_allowed
        max_age_ms = rules.decide.max_age_ms
        self._max_age_s = max_age_ms / 1000 if max_age_ms is not None else None
        self._patience_s = rules.admission.patience_ms / 1000
        self._pipeline_timeout_s = rules.decide.pipeline_timeout_ms / 1000
        self._cache = cache if cache is not None else IdempotencyCache(clock=now)
        sessions = sessions if sessions is not None else Sessions(clock=now)
        self._choose = ProviderChooser(
            sessions,
            meter,
            states=states,
            on_decision=on_decision,
            evaluate=evaluate,
            figures=figures,
            budgets=budgets,
            policies=policies,
            canaries=canaries,
        ).choose
        self._canaries = canaries
        self._rates: RateLimiter = rates if rates is not None else RateLimits()
        self._push = push
        self._extensions = extensions
        self._in_progress: SingleFlight[None] = SingleFlight()
        # assignments of earlier requests, for those that follow one up
        self._assignments = assignments
        self._now = now
        self._read_age = read_age

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
        known = self._cache.recall(request, message.data, started)
        if known is not CacheResult.NEW:
            return self._answer_again(known, request, message, started)
        if PREVIOUS_REQUEST in request.context and self._assignments is not None:
            return self._follow_up(self._assignments, request, message, started)
        return self._start(request, message, started, None)

    def _start(
        self,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Outcome | Awaitable[Outcome]:
        if (
            request.push_assignment
            and self._push is not None
            and self._push.find_skip_reason(request.tenant_id) is None
        ):
            return self._start_assignment(self._push, request, message, started, previous)
        try:
            answer = self._decide(request, message, started, previous)
        except LeaseShort as short:
            return self._decide_after(short, request, message, started, previous)
        if isinstance(answer, Decision):
            self._cache.remember(request, message.data, answer, started)
        elif isinstance(answer, Policy):
            return self._decide_in_pipeline(answer, request, message, started, previous)
        return self._answer(request, answer, started)

    def _answer(self, request: RouteRequest, answer: Decision | Refusal, started: float) -> Done:
        self._meter.on_decision(request, answer, self._now() - started)
        if (
            request.push_assignment
            and isinstance(answer, Decision)
            and (skipped := self._find_skip_reason(request)) is not None
        ):
            self._meter.on_assignment_skipped(skipped.reason)
            return Done(reply=reply_without_assignment(request, answer, skipped))
        return Done(reply=reply_to(request, answer))

    def _answer_again(
        self, known: Decision | CacheResult, request: RouteRequest, message: Message, started: float
    ) -> Outcome | Awaitable[Outcome]:
        """Answer a request that was decided before, from memory.

        A pushed one that is delivered again was not acked; and a server that was away may have lost
        its assignment, with the ack or without it. So its assignment is looked up, or made again of
        the same decision, and published: what is stored already is no second one.
        """
        may_be_lost = self._is_pushed(request) and (
            message.deliveries > 1 or not self._cache.is_of_this_life
        )
        if self._push is None or isinstance(known, CacheResult) or not may_be_lost:
            return self._answer(request, self._recall(known), started)

        def decide() -> Decision | Refusal | RunPipeline:
            # the worker gets what they made of the request
            if EXECUTED_EXTENSIONS in known.metadata:
                return self._decide_for_push(request, message, started, None)
            return known

        return self._push.push_again(
            request,
            message,
            decide,
            lambda pushed: self._conclude_push(request, message, started, pushed),
        )

    def _find_skip_reason(self, request: RouteRequest) -> SkippedAssignment | None:
        """Why this request is decided without the assignment that it asks for; None: it gets one."""
        return (
            SWITCHED_OFF if self._push is None else self._push.find_skip_reason(request.tenant_id)
        )

    def _recall(self, known: Decision | CacheResult) -> Decision | Refusal:
        if isinstance(known, CacheResult):
            return REQUEST_ID_TAKEN
        self._meter.on_repeat()
        return known

    async def _follow_up(
        self, known: AssignmentLookup, request: RouteRequest, message: Message, started: float
    ) -> Outcome:
        """Handle a request that follows up another of its tenant. Raises BrokerUnavailable while
        that assignment cannot be read.
        """
        previous = await find_previous(known, request)
        return await self._start_after_wait(request, message, started, previous)

    async def _start_after_wait(
        self,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Outcome:
        # its twin may have come meanwhile
        again = self._cache.recall(request, message.data, self._now())
        if again is CacheResult.NEW:
            outcome = self._start(request, message, started, previous)
        else:
            outcome = self._answer_again(again, request, message, started)
        return await outcome if isinstance(outcome, Awaitable) else outcome

    async def _decide_after(
        self,
        short: LeaseShort,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Outcome:
        """Decide when what is leased has grown, or cannot grow. Raises BrokerUnavailable."""
        await short.wait()
        return await self._start_after_wait(request, message, started, previous)

    async def _decide_in_pipeline(
        self,
        policy: Policy,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Outcome:
        """Decide in the pipeline. Concurrent duplicates wait for the first and get its decision;
        after a refusal each tries itself.
        """
        key = (request.tenant_id, request.request_key)
        if not self._in_progress.try_acquire(key):
            await self._in_progress.acquire(key)
        try:
            known = self._cache.recall(request, message.data, self._now())
            if known is not CacheResult.NEW:
                return self._answer(request, self._recall(known), started)
            answer = None
            # here, not in a coroutine of its own: that would be resumed with every answer of an
            # extension
            while answer is None:
                try:
                    ran = self._run_pipeline(policy, request, message, started, previous)
                    answer = ran if isinstance(ran, Refusal) else (await ran).answer
                except LeaseShort as short:
                    # what is leased is too little for its decision: it is run again, with more
                    await short.wait()
            if isinstance(answer, Decision):
                self._cache.remember(request, message.data, answer, self._now())
            return self._answer(request, answer, started)
        finally:
            self._in_progress.release(key)

    def _run_pipeline(
        self,
        policy: Policy,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Refusal | Awaitable[PipelineResult]:
        """The policy's pipeline around its decision; its time runs from the start of handling."""
        if (
            policy.refusal is None
            and (limited := self._check_rate(policy, request, started)) is not None
        ):
            return limited
        timeout_s = (
            self._pipeline_timeout_s if policy.timeout_ms is None else policy.timeout_ms / 1000
        )
        running = self._extensions.run(
            policy,
            request,
            lambda changed: self._choose_or_wait(policy, changed, self._now(), previous),
            deadline=started + timeout_s,
            traceparent=traceparent_in(message.headers),
            size=len(message.data),
        )
        return running if policy.arm is None else self._count_pipeline(policy, request, running)

    async def _count_pipeline(
        self, policy: Policy, request: RouteRequest, running: Awaitable[PipelineResult]
    ) -> PipelineResult:
        result = await running
        self._canaries.on_decided(
            policy, request.tenant_id, result.answer, is_pushed=self._is_pushed(request)
        )
        return result

    def _is_pushed(self, request: RouteRequest) -> bool:
        return request.push_assignment and self._find_skip_reason(request) is None

    def _start_assignment(
        self,
        push: AssignmentPusher,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Outcome | Awaitable[Outcome]:
        refusal = push.find_refusal(request)
        if refusal is not None:
            return self._answer(request, refusal, started)
        return push.push(
            request,
            message,
            lambda: self._decide_for_push(request, message, started, previous),
            lambda pushed: self._conclude_push(request, message, started, pushed),
        )

    def _decide_for_push(
        self,
        request: RouteRequest,
        message: Message,
        started: float,
        previous: PreviousAttempt | None,
    ) -> Decision | Refusal | RunPipeline:
        decided = self._decide(request, message, started, previous)
        if not isinstance(decided, Policy):
            return decided
        return lambda: self._run_pipeline(decided, request, message, started, previous)

    def _conclude_push(
        self, request: RouteRequest, message: Message, started: float, pushed: Pushed
    ) -> Outcome:
        """The stored assignment is the decision: it is stored already, and published as an effect
        of this message.
        """
        if not isinstance(pushed, PushedAssignment):
            return self._answer(request, pushed, started)
        if pushed.is_repeat:
            self._meter.on_repeat()
        seconds = self._now() - started

        def remember(_: Sequence[PublishAck]) -> None:
            # Not before its assignment is published: until then the answer may still be that there
            # is no room for it.
            self._cache.remember(
                request, message.data, pushed.decision, self._now(), pushed.content
            )
            self._meter.on_decision(request, pushed.decision, seconds)

        return Done((pushed.effect,), reply_to(request, pushed.decision), remember)

    def _decide(
        self, request: RouteRequest, message: Message, now: float, previous: PreviousAttempt | None
    ) -> Decision | Refusal | Policy:
        """The answer; or the policy, where its extensions must be called first."""
        if self._max_age_s is not None and self._read_age(message.stored_at) > self._max_age_s:
            return TOO_OLD
        if (
            REPLY_TO in message.headers
            and not request.push_assignment
            and self._read_age(message.stored_at) > self._patience_s
        ):
            return NO_LONGER_AWAITED
        policy = self._policies.find(request.tenant_id, request.policy_id)
        if policy is None:
            return Refusal(
                POLICY_NOT_FOUND,
                f"Policy not found: {request.policy_id}",
                {"policy_id": request.policy_id},
            )
        if policy.canary is not None:
            policy = find_arm(policy, request)
        if not policy.pipeline.is_empty:
            return policy
        limited = self._check_rate(policy, request, now) if policy.rate_limit is not None else None
        if limited is not None:
            return limited
        answer = self._choose_or_wait(policy, request, now, previous)
        if policy.arm is not None:
            self._canaries.on_decided(
                policy, request.tenant_id, answer, is_pushed=self._is_pushed(request)
            )
        return answer

    def _choose_or_wait(
        self, policy: Policy, request: RouteRequest, now: float, previous: PreviousAttempt | None
    ) -> Decision | Refusal:
        try:
            return self._choose(policy, request, now, previous)
        except LeaseShort:  # it is tried again, from the rate limit on
            self._rates.give_back(policy, request.tenant_id, now)
            raise

    def _check_rate(self, policy: Policy, request: RouteRequest, now: float) -> Refusal | None:
        wait_ms = self._rates.allow(policy, request.tenant_id, now)
        return (
            None
            if wait_ms is None
            else Refusal(RATE_LIMIT_EXCEEDED, "Rate limit exceeded", {"retry_after_ms": wait_ms})
        )


# -- The request that another one follows up: `context.previous_request_id` names it, and its
# known assignment says which provider had it. So a policy's fallback rule can send the request
# to the same provider again while its retries last (docs/reference/policies.md#retry).

_DIGITS = 4  # more attempts than any rule allows, and a number that is read at once
PREVIOUS_REQUEST = "previous_request_id"


async def find_previous(known: AssignmentLookup, request: RouteRequest) -> PreviousAttempt | None:
    """The previous attempt; None: the request names no assignment of its own tenant. Raises
    BrokerUnavailable.
    """
    named = request.context.get(PREVIOUS_REQUEST)
    if not isinstance(named, str) or not ids.is_opaque(named):
        return None
    assignment_id = assignment_id_of(request.tenant_id, named)
    assignment = known.recall(assignment_id) or await known.lookup(assignment_id, _return_same)
    if assignment is None or assignment.tenant_id != request.tenant_id:
        return None
    return PreviousAttempt(assignment.provider_id, _attempts(assignment))


def _attempts(assignment: Assignment) -> int:
    """How often the provider was tried; a first decision has no count. An extension may have
    written something else there.
    """
    told = assignment.decision.metadata.get(ATTEMPTS, "1")
    return int(told[:_DIGITS]) if told.isascii() and told.isdigit() else 1


def _return_same(known: Assignment | None) -> Assignment | None:
    return known
