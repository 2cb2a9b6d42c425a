"""The ledger and the costs of a chain."""

import math
from types import SimpleNamespace

import pytest

from tests.rigs.faults.cluster.chains.chain import Effect
from tests.rigs.faults.cluster.chains.kinds import FROM_END
from tests.rigs.faults.cluster.chains.measure import ChainObserved, measure
from tests.rigs.faults.cluster.chains.report import tables
from tests.rigs.faults.cluster.chains.run import ChainReport, make_row
from tests.rigs.faults.injector import Happened

SENT = {"a": 1.0, "b": 2.0, "c": 3.0}
FAULT = Happened("leader killed", 1.0, 11.0)


@pytest.fixture(autouse=True)
def _one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock of the effects and the steady clock of the times of sending show the same."""
    clock = SimpleNamespace(time=lambda: 100.0, monotonic=lambda: 100.0)
    monkeypatch.setattr("tests.rigs.faults.cluster.chains.measure.time", clock)


def test_each_message_has_its_effect_once() -> None:
    row = make_row(
        "bus: projected",
        SENT,
        [Effect("a", 0.0), Effect("b", 0.0), Effect("b", 0.0), Effect("x", 0.0)],
    )
    assert (row.lost, row.double, row.unexpected, row.found) == (("c",), ("b",), ("x",), 4)


def test_a_fault_costs_the_longest_wait_and_the_time_until_all_is_well() -> None:
    last = [Effect("a", 1.5), Effect("b", 6.0), Effect("c", 3.5)]
    (cost,) = measure(ChainObserved("bus", [FAULT], SENT, last, [], FROM_END))
    assert (cost.sent, cost.lost, cost.stuck, cost.mended_s) == (3, 0, 0, 0.0)
    assert cost.longest_s == 4.0
    assert cost.well_s == 5.0


def test_what_has_no_effect_is_stuck_and_never_well() -> None:
    row = make_row("bus: projected", SENT, [Effect("a", 0.0)])
    (cost,) = measure(ChainObserved("bus", [FAULT], SENT, [Effect("a", 1.5)], [row], FROM_END))
    assert (cost.lost, cost.stuck, cost.longest_s, cost.well_s) == (2, 2, None, None)


def test_a_run_with_a_loss_is_not_clean_and_its_page_tells_it() -> None:
    row = make_row("bus: projected", SENT, [Effect("a", 0.0)])
    costs = measure(ChainObserved("bus", [FAULT], SENT, [Effect("a", 1.5)], [row], FROM_END))
    report = ChainReport({}, 7, 10.0, True, costs, [row], {"projector": 1})
    assert not report.is_clean
    assert (
        "| leader killed | 1 | 3 | 2 | 0 | 2 | never | never / never | never / never |"
        in tables([report])
    )
    assert "| bus: projected | 3 | 1 | 2 | 0 | 0 |" in tables([report])
    assert math.inf not in [cost.longest_s for cost in costs]
