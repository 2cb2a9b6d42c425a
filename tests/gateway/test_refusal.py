"""What an HTTP client hears of a refusal, and which failures may be followed by another attempt."""

import orjson
import pytest

from router.contracts.decision import Refusal
from router.gateway.model.refusal import (
    BEGIN_WITH,
    MAX_KEPT,
    STATUSES,
    GatewayRefusal,
    RetryBudget,
    judge_failure,
    refuse_decision,
)

FALLEN = {"a": "rate_limited", "b": "zero_weight"}


def test_an_error_has_openais_shape_with_our_code() -> None:
    refusal = GatewayRefusal("budget_exceeded", "No room", param="model")
    assert (refusal.status, orjson.loads(refusal.body)) == (
        402,
        {
            "error": {
                "message": "No room",
                "type": "insufficient_quota",
                "param": "model",
                "code": "budget_exceeded",
            }
        },
    )


def test_a_wait_is_told_in_whole_seconds_never_too_early() -> None:
    waits = [GatewayRefusal("overloaded", "", retry_after_ms=ms).retry_after_s for ms in (0, 1001)]
    assert waits == [1, 2]
    assert GatewayRefusal("internal", "").retry_after_s is None


@pytest.mark.parametrize(
    ("refusal", "told"),
    [
        (Refusal("policy_not_found", "no"), (404, "policy_not_found", None)),
        (
            Refusal("rate_limit_exceeded", "no", {"retry_after_ms": 30}),
            (429, "rate_limit_exceeded", 1),
        ),
        (
            Refusal("decision_failed", "no", {"providers": FALLEN, "retry_after_ms": 3000}),
            (429, "provider_rate_limited", 3),
        ),
        (
            Refusal("decision_failed", "no", {"providers": {"a": "circuit_breaker_open"}}),
            (503, "decision_failed", None),
        ),
        (Refusal("a_code_of_tomorrow", "no"), (500, "a_code_of_tomorrow", None)),
    ],
)
def test_a_refusal_of_the_router_is_told_by_its_status(
    refusal: Refusal, told: tuple[int, str, int | None]
) -> None:
    refused = refuse_decision(refusal)
    assert (refused.status, refused.code, refused.retry_after_s) == told


@pytest.mark.parametrize(
    ("code", "fault", "status", "next_status"),
    [
        ("extension_error", "request", 400, None),
        ("extension_error", "rate_limit", 429, "429"),
        ("extension_error", "service", 502, "503"),
        ("extension_error", "answer", 502, "503"),
        ("extension_timeout", None, 504, "timeout"),
        ("extension_unavailable", None, 502, "503"),
        ("extension_not_found", None, 502, "503"),
        ("stream_overrun", None, 502, None),
        ("budget_exceeded", None, 402, None),
        ("overloaded", None, 429, None),
        ("internal", None, 500, None),
        (None, None, 500, None),
    ],
)
def test_another_provider_is_asked_for_what_was_the_providers_fault(
    code: str | None, fault: str | None, status: int, next_status: str | None
) -> None:
    metadata = {} if fault is None else {"fault": fault}
    failed = judge_failure(code, "it failed", metadata)
    assert (failed.refusal.status, failed.status) == (status, next_status)
    had_no_work = fault == "rate_limit" or code in ("extension_unavailable", "extension_not_found")
    assert failed.is_free is had_no_work


def test_every_status_is_one_that_openais_clients_sort_by() -> None:
    again = {code for code, (status, _) in STATUSES.items() if status in (408, 409, 429, 500)}
    never = {"invalid_request", "budget_exceeded", "forbidden", "provider_refused"}
    assert not again & never


def test_further_attempts_are_a_share_of_a_tenants_requests() -> None:
    budget = RetryBudget(20.0)
    assert [budget.take() for _ in range(4)] == [True, True, True, False]
    for _ in range(5):
        budget.on_request()
    assert [budget.take(), budget.take()] == [True, False]
    for _ in range(1_000):
        budget.on_request()
    assert sum(budget.take() for _ in range(100)) == MAX_KEPT > BEGIN_WITH


def test_a_share_of_nothing_allows_no_further_attempt() -> None:
    assert not RetryBudget(0.0).take()
