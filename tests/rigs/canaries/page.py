"""The page of simulated canaries: a row for each share and error rate."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from bench.machine import origin_lines
from router.policies.model.canaries import CanaryVerdict
from tests.rigs.canaries.simulation import Arm, Ended, play

SEED = 24
SHARES = (0.05, 0.2, 0.5)
RATES = (0.05, 0.1, 0.2)
SAME_OUTCOMES, WORSE_OUTCOMES = 300, 2000  # of the candidate, at most

HEAD = """# Simulated canaries

{origin}

`make canaries` wrote this: {count} canaries in each cell, seed {seed}, with the functions that serve requests. Both guards stand,
`error_rate<=1.2x` and `p95_latency<=1.2x`; the verdict is asked for after every outcome of the candidate; latencies are lognormal.
[The canary](../../docs/reference/canary.md) says how it is decided. Outcomes are those of the candidate.

## A candidate that does not differ

Rolled back is a false alarm: at most 1 % is promised. Each canary goes on for {same} outcomes.

| share | error rate | rolled back | promoted early |
| ---: | ---: | ---: | ---: |
"""
WORSE = """
## A candidate that fails twice as often

Outcomes of the candidate until it is rolled back; each canary goes on for {worse} at most.

| share | error rate | found | median | 90 % within | promoted |
| ---: | ---: | ---: | ---: | ---: | ---: |
"""
SLOWER = """
## A candidate that takes twice as long

| share | error rate | found | median | 90 % within | promoted |
| ---: | ---: | ---: | ---: | ---: | ---: |
"""
SHARED = """
## A policy that all tenants may use

Ten tenants, the first of which has a third of the requests. A spiteful one reports an error for each of its requests that the candidate
decided, and for no other; it keeps the candidate from being promoted, and needs a chance of the others to have it rolled back at once.
{count} canaries in each cell.

| first tenant | candidate | share | rolled back | median | 90 % within | promoted early |
| --- | --- | ---: | ---: | ---: | ---: | ---: |
"""
SHARED_PART = 5  # a fifth of the canaries: each verdict looks at every group of tenants
TENANTS = tuple(1 / number for number in range(1, 11))


@dataclass(frozen=True)
class Cell:
    """The canaries of one share and one error rate."""

    share: float
    rate: float
    ended: Sequence[Ended]

    def count(self, verdict: CanaryVerdict) -> int:
        return Counter(one.verdict for one in self.ended)[verdict]

    @property
    def found(self) -> list[int]:
        """Outcomes until it was rolled back, in order; one that was not counts as more than any."""
        return sorted(
            one.outcomes if one.verdict is CanaryVerdict.ROLL_BACK else 10**9 for one in self.ended
        )


def write_page(count: int) -> str:
    rng = random.Random(SEED)
    same = [
        _play(share, rate, Arm(rate), rng, count, SAME_OUTCOMES)
        for share in SHARES
        for rate in RATES
    ]
    worse = [
        _play(share, rate, Arm(2 * rate), rng, count, WORSE_OUTCOMES)
        for share in SHARES
        for rate in RATES
    ]
    slower = [
        _play(share, 0.1, Arm(0.1, median_ms=200), rng, count, WORSE_OUTCOMES) for share in SHARES
    ]
    parts = [
        HEAD.format(origin=origin_lines(), count=count, seed=SEED, same=SAME_OUTCOMES),
        *map(_write_same, same),
    ]
    parts += [
        WORSE.format(worse=WORSE_OUTCOMES),
        *map(_write_worse, worse),
        SLOWER,
        *map(_write_worse, slower),
    ]
    return "".join([*parts, write_shared(count // SHARED_PART)])


def write_shared(count: int) -> str:
    """The last section; seeded by itself."""
    return "".join([SHARED.format(count=count), *_write_shared_rows(random.Random(SEED), count)])


def _write_shared_rows(rng: random.Random, count: int) -> Iterator[str]:
    rows = (
        ("honest", "no different", 0.1),
        ("spiteful", "no different", 0.1),
        ("honest", "fails twice as often", 0.2),
    )
    for first, candidate, rate in rows:
        for share in (0.05, 0.5):
            most = WORSE_OUTCOMES if rate > 0.1 else SAME_OUTCOMES
            kind = {
                "rng": rng,
                "share": share,
                "most": most,
                "tenants": TENANTS,
                "is_spiteful": first == "spiteful",
            }
            cell = Cell(share, rate, [play(Arm(0.1), Arm(rate), **kind) for _ in range(count)])  # type: ignore[arg-type]
            rolled, promoted = (
                cell.count(CanaryVerdict.ROLL_BACK),
                cell.count(CanaryVerdict.PROMOTE),
            )
            told = (
                f"| {share:.0%} | {rolled} of {count} | {' | '.join(_list_figures(cell))} | "
                f"{promoted} |"
            )
            yield f"| {first} | {candidate} {told}\n"


def _play(  # noqa: PLR0917
    share: float, rate: float, candidate: Arm, rng: random.Random, count: int, most: int
) -> Cell:
    return Cell(
        share,
        rate,
        [play(Arm(rate), candidate, rng=rng, share=share, most=most) for _ in range(count)],
    )


def _write_same(cell: Cell) -> str:
    total = len(cell.ended)
    rolled, promoted = cell.count(CanaryVerdict.ROLL_BACK), cell.count(CanaryVerdict.PROMOTE)
    return f"| {cell.share:.0%} | {cell.rate:.0%} | {rolled} of {total} | {promoted} |\n"


def _write_worse(cell: Cell) -> str:
    rolled, promoted = cell.count(CanaryVerdict.ROLL_BACK), cell.count(CanaryVerdict.PROMOTE)
    figures = " | ".join(_list_figures(cell))
    return (
        f"| {cell.share:.0%} | {cell.rate:.0%} | {rolled} of {len(cell.ended)} | {figures} | "
        f"{promoted} |\n"
    )


def _list_figures(cell: Cell) -> Iterator[str]:
    found = cell.found
    for figure in (median(found), found[int(0.9 * len(found))]):
        yield f"{figure:.0f}" if figure < 10**9 else "–"
