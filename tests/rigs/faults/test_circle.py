"""The fault suite, shortly: the whole circle, one router killed; and the control, whose ledger must
not be clean.
"""

import pytest

from tests.rigs.faults.__main__ import HASTY, Given, run
from tests.rigs.faults.kinds import KINDS
from tests.rigs.faults.stage import Cast

KILLED = tuple(kind for kind in KINDS if kind.name == "a router killed")
FEW = Cast(routers=1, workers=1, extensions=0, ack_wait_s=1.0, connect_timeout_ms=30_000)
SHORT = Given(
    minutes=0.001, rate=80.0, kinds=KILLED, cast=FEW, policy="plain", calm_s=(0.1, 0.2), lead_s=0.8
)
A_MINUTE = Given(minutes=1.0, rate=30.0, kinds=KILLED, cast=Cast(router=HASTY))


@pytest.mark.slow  # two processes start, and one again
# on a machine that is busy a start takes long, and nothing here depends on how long
@pytest.mark.timeout(180)
async def test_a_router_is_killed_under_load_and_nothing_is_lost_or_double() -> None:
    """Issue 9, faults: lost 0, double 0."""
    report = await run(SHORT)
    print(report.text())
    assert len(report.happened) == 1
    assert report.is_clean
    assert {row.name for row in report.balance.rows if row.found > 50} == {
        "answered",
        "assigned",
        "executed",
        "results",
        "metered",
    }


@pytest.mark.matrix
@pytest.mark.slow  # a minute of kills
@pytest.mark.timeout(300)
async def test_the_ledger_sees_what_routers_lose_that_acknowledge_first() -> None:
    """The control: the same kills, and something is lost."""
    report = await run(A_MINUTE)
    print(report.text())
    assert report.balance.lost
    assert not report.is_clean
