"""A line through samples: what is flat, what grows, what is too short to say."""

from random import Random

import pytest

from tests.rigs.faults.slope import FLAT, GROWING, UNSURE, fitted

HALF_AN_HOUR = range(0, 1800, 5)


def samples(an_hour: float, noise: float = 0.5) -> list[tuple[float, float]]:
    dice = Random(3)
    return [(float(at), 100 + an_hour * at / 3600 + dice.gauss(0, noise)) for at in HALF_AN_HOUR]


@pytest.mark.parametrize(
    ("an_hour", "verdict"), [(0.0, FLAT), (-20.0, FLAT), (20.0, GROWING), (5.0, GROWING)]
)
def test_a_slope_is_told_with_its_confidence(an_hour: float, verdict: str) -> None:
    line = fitted(samples(an_hour))
    assert abs(line.slope - an_hour) <= 2 * line.margin
    assert line.verdict(4.0) == verdict


@pytest.mark.parametrize("an_hour", [-40.0, -10.0])
def test_noise_that_hides_the_slope_is_neither_flat_nor_growing(an_hour: float) -> None:
    line = fitted(samples(an_hour, noise=60.0))
    assert line.margin > abs(line.slope - 4.0)
    assert line.verdict(4.0) == UNSURE


def test_a_line_needs_three_minutes() -> None:
    with pytest.raises(ValueError, match="three are the least"):
        fitted(samples(0.0)[:20])


def test_a_line_through_the_least_of_each_minute_does_not_follow_what_comes_and_goes() -> None:
    busier = [(at, 60 + (at % 60) * at / 3000) for at, _ in samples(0.0)]
    assert fitted(busier).verdict(2.0) == GROWING
    assert fitted(busier, min).verdict(2.0) == FLAT
