"""The fault suite on three servers, shortly: the leader of the requests is killed."""

import pytest

from tests.rigs.faults.cluster.kinds import KINDS
from tests.rigs.faults.cluster.run import ClusterRun, run
from tests.rigs.faults.stage import Cast

(KILLED,) = (kind for kind in KINDS if kind.name == "leader of ROUTER_DECIDE killed")
FEW = Cast(
    routers=1, workers=1, extensions=0, ack_wait_s=1.0, replicas=3, connect_timeout_ms=30_000
)
SHORT = ClusterRun(
    rounds=1,
    rate=20.0,
    kinds=(KILLED._replace(least_s=0.1, most_s=0.2),),
    cast=FEW,
    policy="plain",
    calm_s=(0.1, 0.2),
)


@pytest.mark.slow  # three servers elect a leader twice, two processes start
# on a machine that is busy a start takes long, and nothing here depends on how long
@pytest.mark.timeout(180)
async def test_the_leader_of_the_requests_is_killed_under_load_and_nothing_is_lost_or_double() -> (
    None
):
    report = await run(SHORT, {})
    print(report.text())
    assert [cost.kind for cost in report.costs] == ["leader of ROUTER_DECIDE killed"]
    assert report.is_clean
    assert all(
        row.found > 0
        for row in report.balance.rows
        if row.name in {"answered", "assigned", "results", "metered"}
    )
