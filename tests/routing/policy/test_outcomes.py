"""What an outcome says of its provider, by status and code alone."""

import pytest

from router.routing.policy.breaker_rules import ProviderOutcome, classify_outcome


@pytest.mark.parametrize(
    "code",
    ["TIMEOUT", "CONNECTION_ERROR", "PROVIDER_UNAVAILABLE", "5XX", "HTTP_5XX", "SERVER_ERROR", "server_error", "500", "503", "HTTP_599"],
)
def test_the_providers_own_failures_count(code: str) -> None:
    assert classify_outcome("error", code) is ProviderOutcome.FAILURE


@pytest.mark.parametrize(
    "code", [None, "400", "429", "HTTP_404", "600", "5001", "50", "VALIDATION_ERROR", "RATE_LIMIT_EXCEEDED", "1001", "5٠٠"]
)
def test_what_is_not_the_providers_fault_says_nothing(code: str | None) -> None:
    assert classify_outcome("error", code) is ProviderOutcome.NEUTRAL


def test_a_timeout_is_a_failure_without_a_code_and_a_cancellation_is_none_with_one() -> None:
    assert classify_outcome("timeout", None) is ProviderOutcome.FAILURE
    assert classify_outcome("cancelled", "SERVER_ERROR") is ProviderOutcome.NEUTRAL


def test_a_success_is_one_whatever_code_it_carries() -> None:
    assert classify_outcome("success", "500") is ProviderOutcome.SUCCESS
