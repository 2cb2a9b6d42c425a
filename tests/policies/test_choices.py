"""Four providers under least_latency and cheapest, on a clock that stands still: shares of choices
while one is slow, or fails fast.
"""

from collections import Counter

from router.policies.model import Policy
from tests.support.measurements import Simulation
from tests.support.policy import a_policy, a_provider

NAMES = ("a", "b", "c", "d")
FOUR = tuple(a_provider(name, 25) for name in NAMES)
LEAST = a_policy(*FOUR, strategy={"type": "least_latency"})


class Trouble:
    """The providers take 0.05 to 0.08 s; one of them five times as long, or it fails within a
    millisecond.
    """

    def __init__(self) -> None:
        self.slow: str | None = None
        self.failing: str | None = None

    def __call__(self, provider: str, at: float) -> tuple[float, bool]:
        if provider == self.failing:
            return 0.001, False
        seconds = 0.05 + 0.03 * (at * 7919 % 1)
        return (seconds * 5 if provider == self.slow else seconds), True


def share(chosen: list[Counter[str]], provider: str) -> float:
    return sum(one[provider] for one in chosen) / sum(one.total() for one in chosen)


def run(policy: Policy, instances: int) -> dict[str, float]:
    """The shares of `a`: usual, slow, recovered, failing, recovered; and how far two instances
    differ while it is slow.
    """
    trouble = Trouble()
    simulated, found = Simulation(policy, trouble, instances), {}
    simulated.run(10)
    found["usual"] = share(simulated.run(10), "a")
    trouble.slow = "a"
    simulated.run(5)
    chosen = simulated.run(50)
    found["slow"] = share(chosen, "a")
    found["differ"] = max(abs(share(chosen[:1], name) - share(chosen[-1:], name)) for name in NAMES)
    trouble.slow = None
    simulated.run(60)
    found["recovered"] = share(simulated.run(20), "a")
    trouble.failing = "a"
    simulated.run(5)
    found["failing"] = share(simulated.run(20), "a")
    trouble.failing = None
    simulated.run(60)
    found["recovered again"] = share(simulated.run(20), "a")
    return found


def test_a_slow_one_and_one_that_fails_fast_are_left_out_and_come_back() -> None:
    found = run(LEAST, instances=1)
    assert 0.15 < found["usual"] < 0.35
    assert found["slow"] <= 0.05
    assert found["failing"] <= 0.02
    assert found["recovered"] > 0.1
    assert found["recovered again"] > 0.1


def test_two_instances_that_each_see_half_of_the_results_agree() -> None:
    found = run(LEAST, instances=2)
    assert found["slow"] <= 0.05
    assert found["failing"] <= 0.02
    assert found["differ"] <= 0.02
    assert found["recovered"] > 0.1
    assert found["recovered again"] > 0.1


def test_the_cheapest_within_the_objectives_costs_what_the_best_would() -> None:
    """`a` is the cheapest and too slow, `b` the next and failing; the best is `c`."""
    costs = {"a": 0.001, "b": 0.002, "c": 0.003, "d": 0.01}

    def work(provider: str, at: float) -> tuple[float, bool]:
        return (0.4 if provider == "a" else 0.05), not (provider == "b" and at * 7919 % 1 < 0.2)

    strategy = {"type": "cheapest", "within": {"p95_latency_ms": 200, "success_rate": 0.95}}
    simulated = Simulation(a_policy(*FOUR, strategy=strategy), work)
    simulated.run(10, cost=costs.__getitem__)
    (chosen,) = simulated.run(60, cost=costs.__getitem__)
    spent = sum(count * costs[name] for name, count in chosen.items()) / chosen.total()
    assert spent <= 1.05 * costs["c"]
    assert chosen["c"] / chosen.total() > 0.95
