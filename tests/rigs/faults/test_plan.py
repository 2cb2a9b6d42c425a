"""The order of faults comes from the seed, and leaves none out."""

from tests.rigs.faults.injector import CALM_S, Plan
from tests.rigs.faults.kinds import KINDS


def test_the_same_seed_gives_the_same_faults() -> None:
    one, other = Plan(7), Plan(7)
    assert [one.next() for _ in range(60)] == [other.next() for _ in range(60)]
    assert [Plan(7).next() for _ in range(1)] != [Plan(8).next() for _ in range(1)]


def test_every_kind_comes_once_a_round_within_its_bounds() -> None:
    plan = Plan(3)
    first_round = [plan.next() for _ in KINDS]
    assert {planned.kind.name for planned in first_round} == {kind.name for kind in KINDS}
    assert all(
        planned.kind.least_s <= planned.hold_s <= planned.kind.most_s for planned in first_round
    )
    assert all(CALM_S[0] <= planned.calm_s <= CALM_S[1] for planned in first_round)
