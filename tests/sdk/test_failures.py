"""Whose fault a failure was, as a worker's function and an extension's say it by what they raise."""

import math
import time
from collections.abc import Callable

import pytest

from router import ProviderFailed, RateLimited, RequestRefused, StepResult, make_failure
from router.contracts.failure_class import classify_outcome
from router.contracts.result import MAX_LATENCY_MS, ExecResult, read_result
from router.core.errors import Transient
from router.sdk.extension import Refused, provider
from router.sdk.extension.function_runner import FunctionRunner
from router.sdk.extension.request import RequestFailed
from tests.support.extension_author import a_prompt, data_of
from tests.support.requests import a_message
from tests.support.sdk import WorkerStreams, a_body, run_workers
from tests.support.waiting import until


def raising(exc: Exception) -> Callable[[object], StepResult]:
    def answer(_: object) -> StepResult:
        raise exc

    return answer


@pytest.mark.parametrize("encoding", ["json", "protobuf"])
@pytest.mark.parametrize(
    ("exc", "code", "which", "attempts", "retry_after_ms"),
    [
        (ProviderFailed("503"), "PROVIDER_FAILED", "provider", 2, None),
        (Transient("busy"), "2001", "provider", 2, None),
        (ValueError("a defect"), "2001", "provider", 1, None),
        (RequestRefused("too long"), "REQUEST_REFUSED", "request", 1, None),
        (RateLimited(retry_after=1.5), "RATE_LIMITED", "rate_limit", 1, 1500),
        (RateLimited(), "RATE_LIMITED", "rate_limit", 1, None),
    ],
)
async def test_a_result_says_whose_fault_it_was_after_as_many_attempts_as_may_help(
    place: WorkerStreams,
    *,
    encoding: str,
    exc: Exception,
    code: str,
    which: str,
    attempts: int,
    retry_after_ms: int | None,
) -> None:
    begun: list[object] = []

    def answer(assignment: object) -> StepResult:
        begun.append(assignment)
        raise exc

    async with run_workers(place.worker(answer, encoding=encoding)):
        await place.push(a_body("a-1"))
        await until(lambda: place.stored(place.topology.results), what="a result")
    (stored,) = await place.stored(place.topology.results)
    result = read_result(a_message(stored.data, stored.headers, stored_ns=time.time_ns())).found
    assert isinstance(result, ExecResult)
    assert (result.status, result.error_code, result.retry_after_ms) == (
        "error",
        code,
        retry_after_ms,
    )
    assert len(begun) == attempts
    found = classify_outcome(result.status, result.error_code)
    assert found is not None
    assert found.value == which


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, RequestRefused),
        (422, RequestRefused),
        (429, RateLimited),
        *((one, ProviderFailed) for one in (401, 404, 408, 500, 503, 529)),
    ],
)
def test_an_http_status_becomes_the_exception_of_its_class(
    status: int, kind: type[Exception]
) -> None:
    assert type(make_failure(status)) is kind


@pytest.mark.parametrize(
    ("header", "told_ms"),
    [
        ("2", 2000),
        ("0", 1),
        ("0.25", 250),
        (None, None),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 1),
        ("Fri, 31 Dec 1999 23:59:59", None),
        ("Friday", None),
        (" " * 100 + "2", None),
        ("-1", None),
        ("nan", None),
        ("1e300", MAX_LATENCY_MS),
    ],
)
def test_the_time_of_a_limit_is_read_where_it_is_a_number_or_a_date(
    header: str | None, told_ms: int | None
) -> None:
    limited = make_failure(429, retry_after=header)
    assert isinstance(limited, RateLimited)
    assert limited.retry_after_ms == told_ms


def test_the_date_of_a_limit_is_so_far_ahead(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.sdk.failures.wall", lambda: 1_800_000_000.0)
    limited = make_failure(429, retry_after="Fri, 15 Jan 2027 08:00:30 GMT")
    assert isinstance(limited, RateLimited)
    assert limited.retry_after_ms == 30_000


@pytest.mark.parametrize("wrong", [-1, 1.5, MAX_LATENCY_MS + 1, True, math.inf])
def test_a_step_with_a_time_that_is_none_is_refused(wrong: object) -> None:
    with pytest.raises(ValueError, match="retry_after_ms"):
        StepResult(status="error", retry_after_ms=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("exc", "said"),
    [
        (RequestRefused("too long"), (422, "request_refused", "request", None)),
        (Refused("no such customer", status=404), (404, "refused", "request", None)),
        (RateLimited(retry_after=2), (429, "rate_limited", None, 2000)),
        (ProviderFailed("upstream"), (502, "provider_failed", None, None)),
    ],
)
def test_an_extension_says_it_by_a_number_and_where_that_says_something_else_by_a_word(
    exc: Exception, said: tuple[int, str, str | None, int | None]
) -> None:
    with pytest.raises(RequestFailed) as caught:
        FunctionRunner(provider("mine")(raising(exc))).run_now(data_of(a_prompt()), {})
    failed = caught.value
    assert (failed.status, failed.code, failed.fault, failed.retry_after_ms) == said
