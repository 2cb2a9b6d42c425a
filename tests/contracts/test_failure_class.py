"""Whose fault an outcome was, by status and code alone."""

from pathlib import Path

import pytest

from router.contracts.failure_class import (
    CANCELLED,
    FAMILIES,
    PROVIDER,
    RATE_LIMIT,
    REQUEST,
    WORDS,
    FailureClass,
    classify_code,
    classify_number,
    classify_outcome,
)

PROVIDERS = [
    None,
    "",
    "TIMEOUT",
    "CONNECTION_ERROR",
    "PROVIDER_ERROR",
    "PROVIDER_UNAVAILABLE",
    "5XX",
    "server_error",
    "500",
    "503",
    "HTTP_599",
    "529",
    "401",
    "402",
    "403",
    "HTTP_404",
    "408",
    "2001",
    "2002",
    "4001",
    "5001",
    "2100",
    "INVALID_API_KEY",
    "OUT_OF_ORDER",
    "5٠٠",
]
REQUESTS = [
    "400",
    "HTTP_422",
    "413",
    "431",
    "451",
    "1001",
    "3001",
    "4XX",
    "VALIDATION_ERROR",
    "content-filter",
    "Invalid Request",
]
LIMITS = [
    "429",
    "HTTP_429",
    "RATE_LIMITED",
    "rate-limit-exceeded",
    "Too Many Requests",
    "QUOTA_EXCEEDED",
    "insufficient_quota",
]
CANCELLATIONS = ["499", "CANCELLED", "canceled", "ABORTED", "NOT_ASKED"]


@pytest.mark.parametrize(
    ("codes", "expected"),
    [(PROVIDERS, PROVIDER), (REQUESTS, REQUEST), (LIMITS, RATE_LIMIT), (CANCELLATIONS, CANCELLED)],
    ids=lambda one: one.value if isinstance(one, FailureClass) else "codes",
)
def test_an_error_is_classified_by_its_code(
    codes: list[str | None], expected: FailureClass
) -> None:
    assert {code: classify_outcome("error", code) for code in codes} == dict.fromkeys(
        codes, expected
    )


def test_the_page_has_each_code_in_the_row_of_its_class() -> None:
    page = (Path(__file__).parents[2] / "docs/reference/contracts.md").read_text()
    rows = {
        row.split('id="class-')[1].split('"')[0]: row
        for row in page.splitlines()
        if 'id="class-' in row
    }
    for code, which in {
        **WORDS,
        **{f"{begin}…": family for begin, family in FAMILIES.items()},
    }.items():
        assert f"`{code}`" in rows[which.value.replace("_", "-")], code


def test_a_timeout_is_the_providers_and_a_cancellation_is_none_whatever_the_code() -> None:
    assert {classify_outcome("timeout", code) for code in (None, "429", "400")} == {PROVIDER}
    assert classify_outcome("cancelled", "SERVER_ERROR") is CANCELLED


def test_a_success_is_one_whatever_code_it_carries() -> None:
    assert classify_outcome("success", "500") is None


def test_a_number_and_its_text_are_the_same() -> None:
    assert all(classify_number(number) is classify_code(str(number)) for number in range(100, 600))
