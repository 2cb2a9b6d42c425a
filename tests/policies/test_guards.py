"""What is typed for a canary, and how long and how wide one may be."""

import msgspec
import pytest

from router.contracts.canary import CanaryPlan
from router.policies.model.canaries.verdict import GuardError, parse_guard, parse_span_ms

DAY_MS = 86_400_000


@pytest.mark.parametrize(
    ("text", "span_ms"),
    [("1s", 1000), ("10m", 600_000), (" 1h ", 3_600_000), ("7d", 7 * DAY_MS), ("30d", 30 * DAY_MS)],
)
def test_a_time_is_a_number_and_a_unit_up_to_thirty_days(text: str, span_ms: int) -> None:
    assert parse_span_ms(text) == span_ms


@pytest.mark.parametrize("text", ["0s", "31d", "2592001s", "7", "d", "1.5h", "-1h", "1w"])
def test_another_time_is_refused_and_told_what_is_legal(text: str) -> None:
    with pytest.raises(GuardError, match="30s, 10m, 1h or 7d"):
        parse_span_ms(text)


@pytest.mark.parametrize("text", ["error_rate<=1x", "p95_latency <= 1.25x", "error_rate<=100x"])
def test_a_guard_is_a_figure_and_a_factor_from_1_to_100(text: str) -> None:
    assert str(parse_guard(text)) == text.replace(" ", "")


@pytest.mark.parametrize(
    "text", ["error_rate<=0.9x", "error_rate<=100.1x", "cost<=2x", "error_rate>=2x", "error_rate"]
)
def test_another_guard_is_refused_and_told_what_is_legal(text: str) -> None:
    with pytest.raises(GuardError, match="the factor is 1 … 100"):
        parse_guard(text)


@pytest.mark.parametrize(("share", "is_legal"), [(0.01, True), (50, True), (0, False), (51, False)])
def test_a_canary_takes_a_hundredth_of_a_percent_to_half_of_the_requests(
    share: float, *, is_legal: bool
) -> None:
    plan = {"document": {}, "share": share, "guards": [], "until_ms": 0, "min_results": 1}
    try:
        msgspec.convert(plan, CanaryPlan)
    except msgspec.ValidationError:
        assert not is_legal
    else:
        assert is_legal
