"""What happens when, and what is measured of it."""

import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.rigs.strategies.town import NAMES, Choice, Result, Town, a_town

SETTLED_S = 5.0  # so long after a change a strategy has noticed it
BACK = 0.125  # half of an equal share of four
BACK_WITHIN_S = 120.0
STEP_S = 5.0
RECOMPUTED = 20_000
# below 1.00: what is above is held where the policy names no cost
COSTS = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}
OBJECTIVE_MS = 300.0
# What is promised, at most.
SLOW_SHARE, FAILING_SHARE, P95_RATIO, COST_RATIO, INSTANCES_POINTS = 0.05, 0.02, 1.2, 1.05, 2.0


@dataclass(frozen=True)
class Measure:
    """A figure as text. `is_kept`: whether what is promised of it holds; None: nothing is."""

    name: str
    value: str
    is_kept: bool | None = None


@dataclass
class Part:
    """One part of a course: what happens, how long, and what was measured."""

    what: str
    seconds: float
    requests: int
    measures: list[Measure] = field(default_factory=list)


@dataclass
class Course:
    title: str
    parts: list[Part]
    recorded: int = 0
    differences: int = 0

    @property
    def is_kept(self) -> bool:
        return not self.differences and all(
            one.is_kept is not False for part in self.parts for one in part.measures
        )


def find_p95(values: Sequence[float]) -> float:
    return sorted(values)[max(0, math.ceil(0.95 * len(values)) - 1)] if values else math.nan


def share_of(name: str, choices: Sequence[Choice]) -> float:
    return sum(one.provider == name for one in choices) / len(choices) if choices else math.nan


def tell(what: str) -> None:
    print(what, file=sys.stderr, flush=True)


class Window:
    """A part under way: the choices and results since it began."""

    def __init__(self, town: Town, what: str) -> None:
        tell(what)
        self._town = town
        self._what = what
        self._begun = time.monotonic()
        self._begun_ms = time.time() * 1000

    def list_choices(self, after_s: float = 0.0) -> list[Choice]:
        return [one for one in self._town.choices if one.at >= self._begun + after_s]

    def list_results(self, after_s: float = 0.0) -> list[Result]:
        return [
            one for one in self._town.results if one.at >= self._begun + after_s and one.is_success
        ]

    def list_instances(self, after_s: float = 0.0) -> list[list[str]]:
        return self._town.list_instances(self._begun_ms + after_s * 1000)

    def close(self, *measures: Measure) -> Part:
        part = Part(
            self._what, time.monotonic() - self._begun, len(self.list_choices()), list(measures)
        )
        tell(f"  {part}")
        return part


def compare_p95(window: Window, well: Sequence[str], after_s: float = 0.0) -> Measure:
    """The p95 of all successes beside that of the providers that an oracle asks."""
    results = window.list_results(after_s)
    all_ms, oracle_ms = (
        find_p95([one.latency_ms for one in results]),
        find_p95([one.latency_ms for one in results if one.provider in well]),
    )
    is_kept = all_ms <= P95_RATIO * oracle_ms if after_s else None
    return Measure(
        f"p95 ÷ the oracle's, after {after_s:g} s",
        f"{all_ms:.0f} ms ÷ {oracle_ms:.0f} ms = {all_ms / oracle_ms:.2f}",
        is_kept,
    )


def measure_share(window: Window, name: str, most: float) -> Measure:
    share = share_of(name, window.list_choices(SETTLED_S))
    return Measure(f"share of {name} after {SETTLED_S:g} s", f"{share:.1%}", share <= most)


def compare_instances(window: Window, name: str) -> Measure:
    shares = [
        chosen.count(name) / max(1, len(chosen)) for chosen in window.list_instances(SETTLED_S)
    ]
    is_kept = 100 * abs(shares[0] - shares[1]) <= INSTANCES_POINTS
    return Measure(
        f"share of {name} by instance", " and ".join(f"{share:.1%}" for share in shares), is_kept
    )


def compare_whole(window: Window) -> Measure:
    """The largest difference between the shares that both instances gave a provider."""
    one, other = window.list_instances()
    points = 100 * max(
        abs(one.count(name) / max(1, len(one)) - other.count(name) / max(1, len(other)))
        for name in NAMES
    )
    value = f"{points:.1f} points of {len(one)} and {len(other)} decisions"
    return Measure("shares of both instances differ at most by", value, points <= INSTANCES_POINTS)


async def run_least_latency(url: str, rate: float) -> Course:
    async with a_town(url, {"type": "least_latency"}) as town:
        for name in NAMES:
            await town.pace(name)
        course = Course("least_latency", [])
        whole, window = Window(town, "all of it"), Window(town, "all four take about 100 ms")
        await town.load(20, rate)
        shares = ", ".join(
            f"{name} {share_of(name, window.list_choices(SETTLED_S)):.0%}" for name in NAMES
        )
        course.parts.append(window.close(Measure("shares after 5 s", shares)))

        await town.pace("a", latency_ms=500)
        window = Window(town, "a takes five times as long, for a minute")
        await town.load(60, rate)
        p95s = compare_p95(window, "bcd"), compare_p95(window, "bcd", SETTLED_S)
        course.parts.append(
            window.close(
                measure_share(window, "a", SLOW_SHARE), *p95s, compare_instances(window, "a")
            )
        )
        await town.pace("a")
        course.parts.append(await wait_until_back(town, "a takes 100 ms again", "a", rate))

        await town.pace("b", latency_ms=1, fails=True)
        window = Window(town, "b fails within 1 ms")
        await town.load(30, rate)
        course.parts.append(
            window.close(measure_share(window, "b", FAILING_SHARE), compare_instances(window, "b"))
        )
        await town.pace("b")
        course.parts.append(await wait_until_back(town, "b is well again", "b", rate))

        course.parts.append(whole.close(compare_whole(whole)))
        await town.decide(max(0, RECOMPUTED + 1000 - len(town.choices)))
        await town.finish()
        course.recorded, course.differences = town.compute_again()
        tell(f"{course.recorded} computed again, {course.differences} differ")
        return course


async def wait_until_back(town: Town, what: str, name: str, rate: float) -> Part:
    """Until it has half of an equal share of the last seconds."""
    window, begun, asked = (
        Window(town, what),
        time.monotonic(),
        f"{name} has {BACK:.1%} of the requests again",
    )
    while (passed := time.monotonic() - begun) < BACK_WITHIN_S:
        await town.load(STEP_S, rate)
        if share_of(name, window.list_choices(passed)) >= BACK:
            return window.close(
                Measure(asked, f"within {time.monotonic() - begun:.0f} s", is_kept=True)
            )
    return window.close(Measure(asked, f"not within {BACK_WITHIN_S:.0f} s", is_kept=False))


async def run_cheapest(url: str, rate: float) -> Course:
    strategy = {"type": "cheapest", "within": {"p95_latency_ms": OBJECTIVE_MS, "success_rate": 0.9}}
    async with a_town(url, strategy) as town:
        for name, cost in COSTS.items():
            await town.pace(name, cost=cost)
        course = Course("cheapest", [])
        window = Window(town, "a costs 0.1, b 0.2, c 0.3, d 0.4; all meet the objectives")
        await town.load(40, rate)
        course.parts.append(
            window.close(compare_cost(window, "a", 15), measure_objective(window, 15))
        )
        await town.pace("a", cost=COSTS["a"], latency_ms=500)
        window = Window(town, "a takes 500 ms: it misses the objective")
        await town.load(40, rate)
        course.parts.append(
            window.close(compare_cost(window, "b", SETTLED_S), measure_objective(window, SETTLED_S))
        )
        await town.finish()
        course.recorded, course.differences = town.compute_again()
        return course


def compare_cost(window: Window, best: str, after_s: float) -> Measure:
    """The mean cost of a success beside that of the cheapest provider that meets the objectives."""
    results = window.list_results(after_s)
    mean = sum(one.cost for one in results) / len(results)
    value = f"{mean:.3f} ÷ {COSTS[best]:.3f} = {mean / COSTS[best]:.3f}"
    return Measure(
        f"cost ÷ the oracle's, after {after_s:g} s", value, mean <= COST_RATIO * COSTS[best]
    )


def measure_objective(window: Window, after_s: float) -> Measure:
    p95_ms = find_p95([one.latency_ms for one in window.list_results(after_s)])
    return Measure(
        f"p95 after {after_s:g} s (objective {OBJECTIVE_MS:.0f} ms)",
        f"{p95_ms:.0f} ms",
        p95_ms <= OBJECTIVE_MS,
    )
