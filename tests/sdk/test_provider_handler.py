"""How a provider's response becomes a worker's step, by code and never by text."""

import json
from typing import Any

import pytest

from router.contracts.exec_assignment import ExecAssignment, read_exec_assignment
from router.contracts.failure_class import FailureClass, classify_outcome
from router.contracts.provider import ProviderResponse, refuse
from router.core.errors import Unanswered
from router.sdk.provider_handler import ProviderHandler, step_of
from router.sdk.step import RESULT_STATUS
from tests.support.sdk import a_body


class Router:
    """Answers every invocation alike, and keeps what it was asked."""

    def __init__(self, answer: ProviderResponse | Exception) -> None:
        self._answer = answer
        self.asked: dict[str, Any] = {}

    async def invoke(self, **asked: Any) -> ProviderResponse:
        self.asked = asked
        if isinstance(self._answer, Exception):
            raise self._answer
        return self._answer


GOOD = ProviderResponse(
    request_id="r", status="success", body="hi", cost=0.5, metadata={"completion_tokens": "2"}
)


def an_assignment(payload: object) -> ExecAssignment:
    return read_exec_assignment(
        json.dumps(a_body(job={"type": "chat", "payload": payload})).encode()
    )


async def asked(payload: object) -> dict[str, Any]:
    router = Router(GOOD)
    await ProviderHandler(router)(an_assignment(payload))
    return router.asked


async def test_a_response_is_the_steps_output() -> None:
    step = await ProviderHandler(Router(GOOD))(an_assignment("hello"))
    assert (step.status, step.output, step.cost, step.metadata) == (
        "ok",
        "hi",
        0.5,
        {"completion_tokens": "2"},
    )


async def test_the_payload_is_what_the_provider_is_asked() -> None:
    assert (await asked("text"))["prompt"] == "text"
    assert (await asked({"text": "a"}))["prompt"] == '{"text":"a"}'
    given = await asked({"prompt": "p", "parameters": {"n": 1}, "context": {"c": 2}})
    assert (given["prompt"], given["parameters"], given["context"]["c"]) == ("p", {"n": 1}, 2)
    assert (given["tenant_id"], given["provider_id"], given["request_id"], given["timeout"]) == (
        "acme",
        "openai",
        "a-1",
        5.0,
    )
    assert given["context"]["job_type"] == "chat"


@pytest.mark.parametrize(
    ("told", "said", "retriable", "which"),
    [
        (("extension_timeout", None), ("timeout", "TIMEOUT"), False, "provider"),
        (("extension_unavailable", None), ("error", "PROVIDER_UNAVAILABLE"), True, "provider"),
        (("extension_error", "service"), ("error", "SERVER_ERROR"), True, "provider"),
        (("extension_error", "answer"), ("error", "SERVER_ERROR"), False, "provider"),
        (("extension_error", "request"), ("error", "REQUEST_REFUSED"), False, "request"),
        (("extension_error", "rate_limit"), ("error", "RATE_LIMITED"), False, "rate_limit"),
        (("extension_not_found", None), ("error", "PROVIDER_NOT_FOUND"), False, "provider"),
        (("invalid_request", None), ("error", "REQUEST_REFUSED"), False, "request"),
        (("overloaded", None), ("error", "NOT_ASKED"), True, "cancelled"),
    ],
)
def test_codes_are_those_that_provider_breakers_read(
    told: tuple[str, str | None], said: tuple[str, str], retriable: bool, which: str
) -> None:
    code, fault = told
    step = step_of(refuse("r", code, "why", metadata={"fault": fault} if fault else {}))
    assert (step.status, step.error_code, step.is_retriable) == (*said, retriable)
    assert classify_outcome(RESULT_STATUS[step.status], str(step.error_code)) is FailureClass(which)


@pytest.mark.parametrize(
    ("told", "passed_on"),
    [("1500", 1500), ("", None), ("0", None), ("soon", None), ("9" * 12, 2_592_000_000)],
)
def test_the_time_of_a_rate_limit_is_passed_on(told: str, passed_on: int | None) -> None:
    step = step_of(
        refuse(
            "r", "extension_error", "why", metadata={"fault": "rate_limit", "retry_after_ms": told}
        )
    )
    assert step.retry_after_ms == passed_on


async def test_a_router_that_is_away_is_no_fault_of_the_providers() -> None:
    step = await ProviderHandler(Router(Unanswered("no answer")))(an_assignment("hello"))
    assert (step.status, step.error_code, step.is_retriable) == ("error", "NOT_ASKED", True)
