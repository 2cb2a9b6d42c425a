"""One limit over four routers of which one is killed, shortly; and what is too much or too little
is seen.
"""

from collections import Counter

import pytest

from tests.rigs.faults.rate_run import ALLOWED, REFUSED, SILENT, RateReport, RateRun, render, run

GIVEN = RateRun(rate=20, burst=20, seconds=10)


@pytest.mark.matrix  # four processes start, and one of them again
# on a machine that is busy a start takes long, and nothing here depends on how long
@pytest.mark.timeout(400)
async def test_four_routers_let_through_what_one_may_while_one_is_killed() -> None:
    given = RateRun(rate=20, burst=20, seconds=6.0, stretch_s=2.0)
    report = await run(given)
    print(render(given, report, {}))
    assert report.is_kept(given)


def a_report(allowed: int, **answers: int) -> RateReport:
    """So many in ten seconds, evenly."""
    kinds = Counter({ALLOWED: allowed, REFUSED: 800 - allowed} | answers)
    return RateReport([10 * number / allowed for number in range(allowed)], kinds, 10.0, 1, 1)


@pytest.mark.parametrize("allowed", [176, 220, 227])
def test_the_limit_with_its_burst_and_a_slice_of_each_router_is_kept(allowed: int) -> None:
    page = render(GIVEN, a_report(allowed), {})
    assert "As promised." in page
    assert f"| {allowed} | 176 |" in page


@pytest.mark.parametrize("allowed", [100, 175, 230, 800])
def test_too_many_and_too_few_are_seen(allowed: int) -> None:
    assert "**Not as promised.**" in render(GIVEN, a_report(allowed), {})


@pytest.mark.parametrize("kind", [SILENT, "provider_unavailable"])
def test_a_request_that_is_answered_otherwise_is_seen(kind: str) -> None:
    assert not a_report(220, **{kind: 1}).is_kept(GIVEN)
