"""Pipelines of extensions that are plain functions, on a clock that only calls and pauses move."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import orjson
from msgspec import Struct

from router.contracts.decision import Decision, Refusal, RouteRequest
from router.contracts.extension import DEADLINE, read_validator_answer
from router.core.errors import CallTimeout, RouterError
from router.extensions.model import (
    ExtensionRegistry,
    HealthTracker,
    Invoker,
    PipelineResult,
    PipelineRunner,
    parse_entry,
)
from router.extensions.model.invoke import Before, ExtensionCall
from router.policies.model import Policy, evaluate
from tests.support.breakers import a_registry
from tests.support.policy import a_policy, a_request

SEGMENTS = {"pre": "pre", "validator": "validate", "post": "post"}


class FakeReply(Struct, frozen=True):
    """An answer as a service gives it."""

    data: bytes
    error_code: int | None = None
    error: str | None = None
    fault: str | None = None
    retry_after_ms: int | None = None


class RecordedCall(Struct, frozen=True):
    subject: str
    body: dict[str, Any]
    headers: Mapping[str, str]
    timeout_s: float
    at: float


# the request -> JSON, bytes, a Said, an exception to raise, or an awaitable of these
ReplySender = Callable[[dict[str, Any]], object]


class FakeExtensions:
    """Extensions by id, the registry that knows them, and time."""

    def __init__(self, **answers: ReplySender) -> None:
        self.now = 0.0
        self.asked: list[RecordedCall] = []
        self.told: list[tuple[str, str]] = []
        self.seconds: list[float] = []  # of each that was told
        self.warned: list[tuple[str, str]] = []
        self.pauses: list[float] = []
        self.call_s = 0.0  # what each call takes
        self._answers = answers
        self.registry = ExtensionRegistry()
        self.health = HealthTracker(now=self.clock, wall_ms=lambda: 0)
        self.breakers = a_registry(now=self.clock)

    def clock(self) -> float:
        return self.now

    def register(self, **kinds: str) -> "FakeExtensions":
        """`register(lower="pre")`; with all the defaults of an entry."""
        self.registry.replace(
            [
                *self.registry.get_all().values(),
                *(parse_entry(an_entry(name, kind)) for name, kind in kinds.items()),
            ]
        )
        return self

    def extensions(self, **more: Any) -> PipelineRunner:
        return PipelineRunner(self.registry, self._invoker(), meter=self, now=self.clock, **more)

    def _invoker(self) -> Invoker:
        return Invoker(self, self.breakers, self.health, self, now=self.clock, sleep=self._sleep)

    async def run(
        self, policy: Policy, request: RouteRequest | None = None, *, deadline: float = 30.0
    ) -> PipelineResult:
        decide: Callable[[RouteRequest], Decision | Refusal] = lambda changed: evaluate(  # noqa: E731
            policy, changed, now=0.0
        )
        return await self.extensions().run(
            policy, request or a_request(), decide, deadline=deadline
        )

    async def fail(self, extension_id: str, *, retry: int = 0) -> RouterError:
        """What a validator's call raises, outside of a pipeline."""
        call = self._call(extension_id, retry, left_s=30)
        try:
            answer = await self._invoker().invoke(call, read_validator_answer)
        except RouterError as failure:
            return failure
        raise AssertionError(f"it did not fail: {answer}")

    async def attempt(self, extension_id: str, before: Before, *, left_s: float) -> None:
        """One attempt of a validator's call, outside of a pipeline."""
        call = self._call(extension_id, 0, left_s)
        await self._invoker().attempt(call, read_validator_answer, before)

    def _call(self, extension_id: str, retry: int, left_s: float) -> ExtensionCall:
        route = self.registry.find(
            extension_id,
            kind="validator",
            tenant_id="acme",
            policy_id="default",
            environment=None,
            key="r-1",
        )
        assert route is not None
        return ExtensionCall(
            route,
            b"{}",
            self.head({}),
            timeout_s=route.timeout_ms / 1000,
            retry=retry,
            deadline=self.now + left_s,
            tenant_id="acme",
        )

    # -- the ports

    def head(self, headers: Mapping[str, str]) -> bytes:
        return orjson.dumps(headers)

    async def call(self, subject: str, data: bytes, head: bytes, timeout_s: float) -> FakeReply:
        body, headers = (
            orjson.loads(data),
            {**orjson.loads(head), DEADLINE: str(int(timeout_s * 1000))},
        )
        self.asked.append(RecordedCall(subject, body, headers, timeout_s, self.now))
        answer = self._answers[subject.split(".")[3]](body)
        if isinstance(answer, Awaitable):
            answer = await answer
        self.now += min(self.call_s, timeout_s)
        if isinstance(answer, CallTimeout):
            self.now += max(0.0, timeout_s - self.call_s)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, FakeReply):
            return answer
        return FakeReply(answer if isinstance(answer, bytes) else orjson.dumps(answer))

    def on_call(self, extension_id: str, kind: str, status: str, seconds: float) -> None:
        self.told.append((extension_id, status))
        self.seconds.append(seconds)

    def on_tolerated(self, extension_id: str, kind: str, policy_id: str, code: str) -> None:
        self.warned.append((extension_id, code))

    async def _sleep(self, seconds: float) -> None:
        self.pauses.append(round(seconds, 3))
        self.now += seconds


def an_entry(name: str, kind: str, **fields: object) -> dict[str, object]:
    return {
        "id": name,
        "type": kind,
        "subject": f"beamline.ext.{SEGMENTS[kind]}.{name}.v1",
        **fields,
    }


def piped_policy(
    *,
    pre: Sequence[Any] = (),
    validators: Sequence[Any] = (),
    post: Sequence[Any] = (),
    **sections: Any,
) -> Policy:
    """A policy with one provider and these extensions: each an id or an object."""
    uses = {"pre": pre, "validators": validators, "post": post}
    given: dict[str, Any] = {
        kind: [{"id": extension} if isinstance(extension, str) else extension for extension in ones]
        for kind, ones in uses.items()
        if ones
    }
    return a_policy(**given, **sections)


def echo(body: dict[str, Any]) -> object:
    """A processor that changes nothing."""
    return {"payload": body["payload"], "metadata": body["metadata"]}


def says(payload: object = None, **metadata: object) -> ReplySender:
    """A processor that answers this payload (the one it got, without) and metadata."""
    return lambda body: {
        "payload": {**body["payload"], **({} if payload is None else {"payload": payload})},
        "metadata": metadata,
    }


def ok(_: dict[str, Any]) -> object:
    return {"status": "ok"}


def reject(_: dict[str, Any]) -> object:
    return {"status": "reject", "reason": "pii_detected", "details": {"pattern": "credit_card"}}


def late(_: dict[str, Any]) -> object:
    return CallTimeout("late")


def in_turn(*answers: object) -> ReplySender:
    """One answer after the other."""
    left = list(answers)
    return lambda body: answer(body) if callable(answer := left.pop(0)) else answer


def statuses(piped: PipelineResult) -> list[tuple[str, str, str]]:
    return [(extension.type, extension.id, extension.status) for extension in piped.executed]


def refusal(piped: PipelineResult) -> tuple[str, dict[str, object]]:
    assert isinstance(piped.answer, Refusal), piped.answer
    return piped.answer.code, dict(piped.answer.details or {})


def decision(piped: PipelineResult) -> Decision:
    assert isinstance(piped.answer, Decision), piped.answer
    return piped.answer
