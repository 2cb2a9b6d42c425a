"""A decide request in, an outcome out: read, replay, tenant, policy, decision, answer. Pure but for its own memories.

    not readable, wrong tenant       -> Dead: an error reply, and a dead letter
    a routing answer that says no    -> Done: it was answered
    a decision                       -> Done, and remembered for whoever asks the same again

A policy without extensions stays on this synchronous path: no task, future, lock, log line or metadata object.
"""

from __future__ import annotations

from typing import Protocol

from msgspec import Struct

from router.clock import Clock, steady, wall
from router.contracts.answer import failure, success, success_protobuf
from router.contracts.decision import (
    DEADLINE_EXCEEDED,
    INVALID_REQUEST,
    POLICY_NOT_FOUND,
    RATE_LIMIT_EXCEEDED,
    UNAUTHORIZED,
    Decision,
    Refusal,
)
from router.contracts.headers import Violation
from router.contracts.malformed import STAGE_TENANT, TENANT_FORBIDDEN
from router.contracts.request import RouteRequest
from router.decide.read import Limits, Reading, read
from router.decide.replays import Recall, Replays
from router.message import Message, Reply
from router.outcome import Dead, Done, Fault, Outcome
from router.policy import Policies, Policy, RateLimits, Sessions, Sticky, evaluate, session_of

CONFLICT = Refusal(INVALID_REQUEST, "This request id was used for a different request", {"field": "request_id"})
TOO_OLD = Refusal(DEADLINE_EXCEEDED, "The request waited longer than decide.max_age_ms")
FOREIGN_TENANT = Fault(TENANT_FORBIDDEN, "This tenant is not served here", "message.tenant_id", STAGE_TENANT)
NO_PUSH = Refusal(
    INVALID_REQUEST, "push_assignment is not served by this router", {"field": "push_assignment", "reason": "assignment_disabled"}
)


class DecideMeter(Protocol):
    """What the app counts of decisions. Called once a message, so it must be cheap."""

    def decided(self, request: RouteRequest, answer: Decision | Refusal, seconds: float) -> None: ...

    def violated(self, message: Message, violations: tuple[Violation, ...]) -> None: ...

    def replayed(self) -> None: ...

    def session(self, outcome: str) -> None: ...


class DecideRules(Struct, frozen=True, kw_only=True):
    """Settings of the handler. Durations are seconds."""

    limits: Limits = Limits()
    tenants_allowed: frozenset[str] = frozenset()  # empty = all
    max_age: float | None = None


class DecideHandler:
    """Answers decide requests by policy. Called by delivery with one message at a time."""

    def __init__(
        self,
        policies: Policies,
        meter: DecideMeter,
        *,
        rules: DecideRules = DecideRules(),  # noqa: B008 - frozen
        replays: Replays | None = None,
        sessions: Sessions | None = None,
        rates: RateLimits | None = None,
        now: Clock = steady,
        today: Clock = wall,
    ) -> None:
        self._policies = policies
        self._meter = meter
        self._rules = rules
        self._replays = replays if replays is not None else Replays(clock=now)
        self._sessions = sessions if sessions is not None else Sessions(clock=now)
        self._rates = rates if rates is not None else RateLimits()
        self._now = now
        self._today = today

    def __call__(self, message: Message) -> Outcome:
        started = self._now()
        reading = read(message, self._rules.limits)
        if reading.violations:
            self._meter.violated(message, reading.violations)
        request = reading.asked
        if isinstance(request, Fault):
            return _dead(request, reading, INVALID_REQUEST)
        if self._rules.tenants_allowed and request.tenant_id not in self._rules.tenants_allowed:
            return _dead(
                Fault(TENANT_FORBIDDEN, "This tenant is not served here", "message.tenant_id", STAGE_TENANT), reading, UNAUTHORIZED
            )
        answer = self._answer_to(request, message, started)
        self._meter.decided(request, answer, self._now() - started)
        return Done(reply=_reply(request, answer))

    def _answer_to(self, request: RouteRequest, message: Message, now: float) -> Decision | Refusal:
        known = self._replays.recall(request, message.data)
        if known is Recall.CONFLICT:
            return CONFLICT
        if isinstance(known, Decision):
            self._meter.replayed()
            return known
        if self._rules.max_age is not None and self._today() - message.stored_at > self._rules.max_age:
            return TOO_OLD
        if request.push_assignment:
            return NO_PUSH
        decision = self._decide(request, now)
        if isinstance(decision, Decision):
            self._replays.remember(request, message.data, decision)
        return decision

    def _decide(self, request: RouteRequest, now: float) -> Decision | Refusal:
        policy = self._policies.find(request.tenant_id, request.policy_id)
        if policy is None:
            return Refusal(POLICY_NOT_FOUND, f"Policy not found: {request.policy_id}", {"policy_id": request.policy_id})
        if policy.rate_limit is not None and (wait_ms := self._rates.allow(policy, request.tenant_id, now)) is not None:
            return Refusal(RATE_LIMIT_EXCEEDED, "Rate limit exceeded", {"retry_after_ms": wait_ms})
        if policy.sticky is None or (session := session_of(policy, request)) is None:
            return evaluate(policy, request, now=now)
        return self._decide_session(policy, policy.sticky, request, session, now)

    def _decide_session(self, policy: Policy, sticky: Sticky, request: RouteRequest, session: str, now: float) -> Decision | Refusal:
        remembered = self._sessions.recall(request.tenant_id, policy.policy_id, session)
        decision = evaluate(policy, request, now=now, remembered=remembered)
        if isinstance(decision, Refusal):
            return decision
        if remembered == decision.provider_id:
            self._meter.session("hit")
        else:
            self._meter.session("miss" if remembered is None else "moved")
            self._sessions.remember(request.tenant_id, policy.policy_id, session, decision.provider_id, sticky.ttl_s)
        return decision


def _reply(request: RouteRequest, answer: Decision | Refusal) -> Reply:
    if isinstance(answer, Decision):
        data = success_protobuf(answer) if request.wants_protobuf else success(answer, request.answer_id, request.trace_id)
    else:
        data = failure(answer.code, answer.message, answer.details, request.answer_id, request.trace_id)
    if request.trace_id is None:
        return Reply(data, {"tenant_id": request.tenant_id, "version": "1"})
    return Reply(data, {"trace_id": request.trace_id, "tenant_id": request.tenant_id, "version": "1"})


def _dead(fault: Fault, reading: Reading, code: str) -> Dead:
    """An error reply and a letter: these bytes can never be decided here (CONTRACTS §5)."""
    details = {"field": fault.field} if fault.field is not None else None
    headers = {"version": "1"}
    if reading.trace_id is not None:
        headers["trace_id"] = reading.trace_id
    if reading.tenant_id is not None:
        headers["tenant_id"] = reading.tenant_id
    return Dead(fault, reply=Reply(failure(code, fault.message, details, reading.answer_id, reading.trace_id), headers))
