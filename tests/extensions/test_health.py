"""How an extension fares: counted over five minutes, with true percentiles, in bounded memory."""

import pytest
from msgspec import to_builtins

from router.extensions.model import HealthTracker
from tests.support.app import ManualClock


class Watching(HealthTracker):
    """Health under a clock moved by hand, which tells both times."""

    def __init__(self, most: int = 4096) -> None:
        self.hand = ManualClock()
        super().__init__(self.hand, lambda: int(self.hand.now * 1000), most=most)

    def calls(self, *latencies_ms: float, ok: bool = True) -> None:
        for latency_ms in latencies_ms:
            self.observe("guard", ok=ok, latency_ms=latency_ms)


def test_without_calls_it_is_healthy_and_says_that_it_knows_nothing() -> None:
    told = to_builtins(Watching().figures("guard"))
    assert told == {
        "extension_id": "guard",
        "status": "healthy",
        "success_rate": 1.0,
        "success_count": 0,
        "failure_count": 0,
        "avg_latency_ms": 0.0,
        "p50_latency_ms": 0.0,
        "p95_latency_ms": 0.0,
        "p99_latency_ms": 0.0,
        "latency_samples": 0,
        "updated_at": 1_000_000,
    }


@pytest.mark.parametrize(
    ("failures", "status"),
    [
        (0, "healthy"),
        (5, "healthy"),
        (6, "degraded"),
        (20, "degraded"),
        (21, "unhealthy"),
        (100, "unhealthy"),
    ],
)
def test_the_success_rate_is_the_status(failures: int, status: str) -> None:
    health = Watching()
    health.calls(*[1.0] * (100 - failures))
    health.calls(*[1.0] * failures, ok=False)
    figures = health.figures("guard")
    assert (figures.status, figures.success_rate) == (status, (100 - failures) / 100)
    assert (figures.success_count, figures.failure_count) == (100 - failures, failures)


def test_percentiles_are_calls_that_were_made() -> None:
    health = Watching()
    health.calls(*reversed([float(n) for n in range(1, 201)]))
    figures = health.figures("guard")
    assert (figures.p50_latency_ms, figures.p95_latency_ms, figures.p99_latency_ms) == (
        100.0,
        190.0,
        198.0,
    )
    assert (figures.avg_latency_ms, figures.last_latency_ms, figures.latency_samples) == (
        100.5,
        1.0,
        200,
    )


def test_one_call_is_every_percentile() -> None:
    health = Watching()
    health.calls(7.0)
    figures = health.figures("guard")
    assert (figures.p50_latency_ms, figures.p95_latency_ms, figures.p99_latency_ms) == (
        7.0,
        7.0,
        7.0,
    )


def test_what_is_older_than_five_minutes_does_not_count_but_the_last_times_are_remembered() -> None:
    health = Watching()
    health.calls(9.0, ok=False)
    health.hand.now += 0.5
    health.calls(1.0)
    health.hand.now += 299.5
    figures = health.figures("guard")
    assert (figures.success_count, figures.failure_count, figures.status) == (1, 0, "healthy")
    assert (figures.last_failure, figures.last_success, figures.updated_at) == (
        1_000_000,
        1_000_500,
        1_000_500,
    )


def test_a_busy_extension_is_judged_by_its_newest_calls_in_bounded_memory() -> None:
    health = Watching(most=10)
    health.calls(*[1.0] * 100, ok=False)
    health.calls(*[2.0] * 10)
    figures = health.figures("guard")
    assert (figures.latency_samples, figures.status, figures.p50_latency_ms) == (10, "healthy", 2.0)


def test_the_median_is_none_until_there_is_one() -> None:
    health = Watching()
    assert health.p50_ms("guard") is None
    health.calls(3.0, 1.0, 2.0)
    assert health.p50_ms("guard") == 2.0


def test_removed_extensions_are_forgotten() -> None:
    health = Watching()
    health.calls(1.0)
    health.observe("other", ok=True, latency_ms=1.0)
    health.keep({"other"})
    assert set(health.get_all()) == {"other"}
