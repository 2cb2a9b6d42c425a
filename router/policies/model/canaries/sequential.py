"""A test of two shares that may be looked at after every outcome, and may stop at any time (docs/reference/canary.md#test).

    evidence(pairs, ratio, alternatives): how many times likelier what was seen is where the one's share is some alternative times
    `ratio` of the other's than where it is `ratio` times

Only the bad outcomes are looked at: given how many each arm had of all, where does a bad one fall? If the candidate's share of bad
outcomes is `ratio` times the other's, it falls to the candidate with the chance ratio × n1 ÷ (ratio × n1 + n0). The mixture of the
likelihood ratios against that chance has an expectation of at most 1 at every moment, so it exceeds 1 ÷ alpha at any time in
a share alpha of all canaries at most (Ville's inequality): there is no error from looking often. It depends on counts alone, so that
every instance, and one that starts anew, has the same.

Of several groups of tenants the ratios are multiplied, each within bounds: one group brings at most MOST of what is needed, and takes
away at most nine tenths of what there is. So no group decides alone, for or against. The promise stays: a tenth of each group's stake
is never wagered (what is left has an expectation of 1 still), and the smaller of that and a bound can only expect less.

Sources: Wald 1945 (the sequential probability ratio test); Robbins 1970, Johari et al. 2022 (mixtures, always-valid inference).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, log, prod

from msgspec import Struct

WORSE = ((1.5, 0.3), (2.0, 0.4), (4.0, 0.2), (10.0, 0.1))  # times, weight: against no difference
MUCH_WORSE = ((1.67, 0.7), (3.0, 0.2), (8.0, 0.1))  # against what a guard allows
BETTER = ((0.83, 0.4), (0.6, 0.3), (0.3, 0.2), (0.05, 0.1))  # than what a guard allows; 0.83 is no difference under 1.2
MAX_EXPONENT = 600.0
KEPT = 0.1  # of a group's stake, where there are several groups
MOST = 0.6  # of the evidence that is needed, by its logarithm, is what one group of several may bring


class Tally(Struct, frozen=True):
    """Bad ones of all outcomes. `bad` of a share that is known to be at least so large may be a fraction."""

    bad: float
    all: float

    @property
    def share(self) -> float:
        return self.bad / self.all if self.all else 0.0


Pair = tuple[Tally, Tally]  # the one, the other


def is_evident(pairs: Sequence[Pair], ratio: float, alternatives: Sequence[tuple[float, float]], needed: float) -> bool:
    """Whether the evidence reaches what is needed, where no group of several may bring it alone."""
    return compute_evidence(pairs, ratio, alternatives, needed**MOST) >= needed


def compute_evidence(pairs: Sequence[Pair], ratio: float, alternatives: Sequence[tuple[float, float]], most: float = inf) -> float:
    """Against: the one's share of bad outcomes is `ratio` times the other's. 1: nothing speaks against it.

    `pairs`: one for each group of tenants. `most`: what one group of several may bring.
    """
    if len(pairs) == 1:
        return sum(weight * _compare(pairs[0], ratio, times) for times, weight in alternatives)
    return sum(weight * prod(_limit(_compare(pair, ratio, times), most) for pair in pairs) for times, weight in alternatives)


def _limit(likelihoods: float, most: float) -> float:
    return min(KEPT + (1 - KEPT) * likelihoods, most)


def _compare(pair: Pair, ratio: float, times: float) -> float:
    """How many times likelier it is that the one's share is `times` as large as `ratio` says."""
    one, other = pair
    if not one.all or not other.all:
        return 1.0
    expected, chance = _chance(one, other, ratio), _chance(one, other, ratio * times)
    return exp(min(MAX_EXPONENT, one.bad * log(chance / expected) + other.bad * log((1 - chance) / (1 - expected))))


def _chance(one: Tally, other: Tally, ratio: float) -> float:
    """That a bad outcome is the one's."""
    return ratio * one.all / (ratio * one.all + other.all)
