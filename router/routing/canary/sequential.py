"""A test of two shares that may be looked at after every outcome, and may stop at any time (docs/reference/canary.md#test).

    evidence(one, other, ratio, alternatives): how many times likelier what was seen is where the one's share is some alternative times
    `ratio` of the other's than where it is `ratio` times

Only the bad outcomes are looked at: given how many each arm had of all, where does a bad one fall? If the candidate's share of bad
outcomes is `ratio` times the other's, it falls to the candidate with the chance ratio × n1 ÷ (ratio × n1 + n0). The mixture of the
likelihood ratios against that chance has an expectation of at most 1 at every moment, so it exceeds 1 ÷ alpha at any time in
a share alpha of all canaries at most (Ville's inequality): there is no error from looking often. It depends on counts alone, so that
every instance, and one that starts anew, has the same.

Sources: Wald 1945 (the sequential probability ratio test); Robbins 1970, Johari et al. 2022 (mixtures, always-valid inference).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log

from msgspec import Struct

WORSE = ((1.5, 0.3), (2.0, 0.4), (4.0, 0.2), (10.0, 0.1))  # times, weight: against no difference
MUCH_WORSE = ((1.67, 0.7), (3.0, 0.2), (8.0, 0.1))  # against what a guard allows
BETTER = ((0.83, 0.4), (0.6, 0.3), (0.3, 0.2), (0.05, 0.1))  # than what a guard allows; 0.83 is no difference under 1.2
MAX_EXPONENT = 600.0


class Tally(Struct, frozen=True):
    """Bad ones of all outcomes. `bad` of a share that is known to be at least so large may be a fraction."""

    bad: float
    all: float

    @property
    def share(self) -> float:
        return self.bad / self.all if self.all else 0.0


def compute_evidence(one: Tally, other: Tally, ratio: float, alternatives: Sequence[tuple[float, float]]) -> float:
    """Against: the one's share of bad outcomes is `ratio` times the other's. 1: nothing speaks against it."""
    if not one.all or not other.all:
        return 1.0
    expected = _chance(one, other, ratio)
    total = 0.0
    for times, weight in alternatives:
        chance = _chance(one, other, ratio * times)
        total += weight * exp(min(MAX_EXPONENT, one.bad * log(chance / expected) + other.bad * log((1 - chance) / (1 - expected))))
    return total


def _chance(one: Tally, other: Tally, ratio: float) -> float:
    """That a bad outcome is the one's."""
    return ratio * one.all / (ratio * one.all + other.all)
