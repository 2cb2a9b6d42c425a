"""The weighted draw: fair, stable, the same everywhere."""

import os
import subprocess
import sys
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping

import pytest
from msgspec.structs import replace

from router.policies.model import PROBE
from router.policies.model.measurements import LearnedFigures
from router.policies.model.policy import DRAW_RANGE, EXPLORE, cumulative_weights, weighted_hash
from tests.support.policy import a_policy, a_provider, a_request, decide

# two degrees of freedom, one chance in a thousand; the keys are fixed, so this never flickers
CHI_SQUARE_999_2 = 13.8


@pytest.mark.parametrize("key", ["{}", "req-{:06d}", "2026-01-01T00:00:{}", "tenant/{}/x"])
@pytest.mark.parametrize("weights", [(70, 30, 10), (1, 1, 1), (99, 0.5, 0.5)])
def test_shares_are_those_of_the_weights(key: str, weights: tuple[float, ...]) -> None:
    draws = 20_000
    seen = Counter(
        bisect_right(cumulative_weights(weights), weighted_hash(1, "acme", key.format(n)))
        for n in range(draws)
    )
    expected = [draws * weight / sum(weights) for weight in weights]
    assert (
        sum((seen[n] - share) ** 2 / share for n, share in enumerate(expected)) < CHI_SQUARE_999_2
    )


def test_bounds_cut_the_line_exactly() -> None:
    assert cumulative_weights((1, 1)) == (DRAW_RANGE // 2,)
    assert cumulative_weights((0.1, 0.2, 0.3))[0] == cumulative_weights((0.1, 0.5))[0]
    assert cumulative_weights((5,)) == ()


def test_a_point_never_changes() -> None:
    assert weighted_hash(1, "acme", "r-1") == weighted_hash(1, "acme", "r-1")
    assert f"{weighted_hash(7, 'acme', 'r-1'):016x}" == "b4876335b629aafe"


def test_whom_a_strategy_draws_never_changes() -> None:
    """Instances of several versions decide alike; in capitals: to explore, or as a probe."""
    figures = {name: LearnedFigures(score=float(n)) for n, name in enumerate("abcd")}
    failing = {name: LearnedFigures(is_failing=True, probe_share=0.3) for name in "abc"}
    policy = a_policy(
        *(a_provider(name, 25) for name in "abcd"),
        strategy={"type": "least_latency", "explore": 0.3},
    )

    def draw(known: Mapping[str, LearnedFigures], *, pushes: bool) -> str:
        requests = (replace(a_request(f"r-{n}"), push_assignment=pushes) for n in range(40))
        drawn = (decide(policy, request, figures=known)[:2] for request in requests)
        return "".join(
            name.upper() if reason in (EXPLORE, PROBE) else name for name, reason in drawn
        )

    assert draw(figures, pushes=False) == "DDAbBaabAaDaDabbaaaaacaabBaBBacaBBabCaDa"
    assert draw(failing, pushes=True) == "CAdAddddBddddAddddCddddddBddddddCddddBdA"


def test_version_tenant_and_key_each_move_the_point() -> None:
    points = {
        weighted_hash(*triple)
        for triple in [(1, "a", "k"), (2, "a", "k"), (1, "b", "k"), (1, "a", "l"), (11, "a", "k")]
    }
    assert len(points) == 5


def test_half_a_surrogate_pair_is_drawn_too() -> None:
    assert 0 <= weighted_hash(1, "acme", "\ud800") < DRAW_RANGE


def test_two_processes_with_different_hash_seeds_decide_alike() -> None:
    code = (
        "from tests.support.policy import *;"
        "p = a_policy(a_provider('a', 50), a_provider('b', 50), sticky={'session_key': 'user'});"
        "print([decide(p, a_request(f'r-{n}'))[0] + decide(p, a_request(user=f'u-{n}'))[0] "
        "for n in range(200)])"
    )
    outputs = {_output(code, seed) for seed in ("0", "4242")}
    assert len(outputs) == 1
    assert len(set(outputs.pop())) > 5


def test_the_same_request_is_decided_alike_and_another_version_draws_anew() -> None:
    providers = (a_provider("a", 50), a_provider("b", 50))
    first, second = a_policy(*providers), a_policy(*providers, version=2)
    requests = [a_request(f"r-{n}") for n in range(100)]
    assert [decide(first, r) for r in requests] == [decide(first, r) for r in requests]
    assert [decide(first, r)[0] for r in requests] != [decide(second, r)[0] for r in requests]


def _output(code: str, seed: str) -> str:
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env
    ).stdout
