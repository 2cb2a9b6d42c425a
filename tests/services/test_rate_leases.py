"""Tokens of the shared rate limits: what is told when an instance counts alone."""

from router.config import Settings
from router.delivery.api import JetStream
from router.operations.observability import events
from router.routing.policy import SharedRates
from router.services.rate_leases import RateLeases
from router.services.server_clock import ServerClock
from tests.support.delivery import connected
from tests.support.observability import capture_log


async def test_the_log_tells_once_a_minute_why_an_instance_counts_alone(nats_url: str) -> None:
    rates = SharedRates()
    async with connected(nats_url) as connection:
        jetstream = JetStream(connection)
        RateLeases(rates, jetstream, Settings().buckets.rate_limits.name, ServerClock(jetstream, Settings().streams.decide.name))
        with capture_log("warning") as lines:
            for _ in range(2):
                rates.count_alone("no answer of the bucket within 1 s")
    (line,) = lines.all()
    assert (line["event"], line["cause"]) == (events.RATE_LIMITS_ALONE, "no answer of the bucket within 1 s")
