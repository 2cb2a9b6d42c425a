"""The figures of the page Now, from pages of metrics."""

import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from math import inf

import pytest

from router.shell.scrape import (
    MetricTotals,
    RouterState,
    Sample,
    add_text,
    compute_figures,
    scrape_all,
)

PAGE = """# HELP router_decisions_total Decide requests answered
# TYPE router_decisions_total counter
router_decisions_total{outcome="ok",policy="p",provider="openai",reason="weighted",tenant="acme"} 90.0
router_decisions_total{outcome="policy_not_found",policy="p",provider="",reason="",tenant="acme"} 10.0
router_decision_seconds_bucket{le="0.001"} 50.0
router_decision_seconds_bucket{le="0.01"} 90.0
router_decision_seconds_bucket{le="+Inf"} 100.0
router_consumer_paused{consumer="router-decide-consumer"} 1.0
router_results_total{provider="openai",status="error"} 4.0
router_other_total{x="y"} 7.0
"""


def a_sample(at: float, *pages: str | None) -> Sample:
    """A page of each router, in order; None: it could not be read."""
    totals = MetricTotals(Counter(), Counter(), Counter(), Counter())
    for number, page in enumerate(pages):
        if page is not None:
            add_text(page, totals, f"r-{number}")
    totals.routers = tuple(
        RouterState(f"r-{number}", "refused" if page is None else "")
        for number, page in enumerate(pages)
    )
    return Sample(at, totals)


def test_several_routers_are_added_up() -> None:
    figures = compute_figures(a_sample(0, "", ""), a_sample(10, PAGE, PAGE))
    assert (figures.rate, round(figures.errors or 0, 3)) == (20.0, 0.1)
    assert [
        (line.tenant, line.provider, line.rate, line.errors, line.worst) for line in figures.tenants
    ] == [("acme", "", 2.0, 1.0, "policy_not_found"), ("acme", "openai", 18.0, 0.0, "")]
    assert [(line.provider, line.errors, line.worst) for line in figures.providers] == [
        ("openai", 1.0, "error")
    ]
    assert (
        a_sample(0, PAGE, PAGE).totals.gauges["router_consumer_paused", "router-decide-consumer"]
        == 2
    )


def test_a_percentile_is_that_of_the_histogram() -> None:
    figures = compute_figures(a_sample(0, ""), a_sample(10, PAGE))
    assert (figures.p50, figures.p99) == (1.0, 10.0)  # beyond the last bound nothing more is known


def test_only_what_happened_between_the_samples_counts_and_a_counter_may_begin_again() -> None:
    same = compute_figures(a_sample(0, PAGE), a_sample(10, PAGE))
    assert (same.rate, same.errors, same.p50, same.tenants) == (0.0, None, None, [])
    restarted = compute_figures(a_sample(0, PAGE.replace("90.0", "500.0")), a_sample(10, PAGE))
    assert restarted.rate == 9.0


def test_a_router_that_could_not_be_read_takes_nothing_off_the_others_and_adds_nothing_when_it_is_back() -> (
    None
):
    away = compute_figures(a_sample(0, PAGE, PAGE), a_sample(10, PAGE, None))
    back = compute_figures(a_sample(0, PAGE, None), a_sample(10, PAGE, PAGE))
    assert (away.rate, back.rate) == (0.0, 0.0)


def test_without_a_router_that_was_read_twice_there_is_no_rate() -> None:
    assert compute_figures(a_sample(0, None), a_sample(10, PAGE)).rate is None


def test_other_metrics_are_not_parsed() -> None:
    assert a_sample(0, "router_other_total{broken\n").totals.buckets == {}
    assert ("r-0", inf) in a_sample(0, PAGE).totals.buckets


@pytest.mark.parametrize(
    "path", ["http://127.0.0.1:90o1", "http://[::1", "http://127.0.0.1:{port}"]
)
def test_an_address_that_speaks_no_http_has_a_cause(path: str) -> None:
    """It ended the sampler, and with it the console. The last one is the port of a NATS server."""

    def greet() -> None:
        with listener.accept()[0] as accepted:
            accepted.sendall(b'INFO {"server_id": "N"}\r\n')

    with socket.create_server(("127.0.0.1", 0)) as listener, ThreadPoolExecutor(1) as thread:
        if "{port}" in path:
            thread.submit(greet)
        (router,) = scrape_all([path.format(port=listener.getsockname()[1])]).routers
    assert router.cause
