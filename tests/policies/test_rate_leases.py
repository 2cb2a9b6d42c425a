"""Tokens of the shared rate limits: what is told when an instance counts alone."""

from typing import Any

import pytest

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.delivery.wire.server_clock import ServerClock
from router.policies.model import RateShort, SharedRates
from router.policies.rate_leases import RateLeases
from router.process.observability import events
from tests.support.buckets import a_bucket
from tests.support.delivery import connected
from tests.support.observability import capture_log
from tests.support.policy import a_policy
from tests.support.supervision import run_children
from tests.support.waiting import until


async def test_the_log_tells_once_a_minute_why_an_instance_counts_alone(nats_url: str) -> None:
    rates = SharedRates()
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection)
        RateLeases(
            rates,
            jetstream,
            Settings().buckets.rate_limits.name,
            ServerClock(jetstream, Settings().streams.decide.name),
        )
        with capture_log("warning") as lines:
            for _ in range(2):
                rates.count_alone("no answer of the bucket within 1 s")
    (line,) = lines.all()
    assert (line["event"], line["cause"]) == (
        events.RATE_LIMITS_ALONE,
        "no answer of the bucket within 1 s",
    )


class BrokenOnceClock:
    """A server's clock whose first reading has a defect."""

    def __init__(self) -> None:
        self.readings = 0

    def __call__(self) -> float:
        return 1.0

    async def read(self) -> None:
        self.readings += 1
        if self.readings == 1:
            raise ZeroDivisionError


async def test_what_was_asked_before_the_child_ended_is_answered_when_it_runs_again(
    nats_url: str, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.policies.rate_leases.AT_ONCE", 1)
    rates, clock = SharedRates(), BrokenOnceClock()
    policy = a_policy(rate_limit={"requests_per_second": 1, "burst": 3})
    async with a_bucket(nats_url, prefix) as bucket:
        server_clock: Any = clock
        leases = RateLeases(rates, bucket.jetstream, prefix, server_clock)
        for tenant_id in ("acme", "globex"):
            with pytest.raises(RateShort):
                rates.allow(policy, tenant_id, 0.0)
        asked = list(leases._asked)
        with pytest.raises(ZeroDivisionError):
            await leases.run()
        assert [one.is_asked for one in asked] == [False, True]
        async with run_children(leases.run):
            await until(lambda: not asked[1].is_asked)
    assert asked[1].tokens > 0
