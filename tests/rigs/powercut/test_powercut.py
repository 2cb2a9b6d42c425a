"""The power cut, shortly: one cut of a server that syncs always; and the default, which must lose."""

import pytest

from tests.rigs.faults.ledger import Ledger
from tests.rigs.faults.ledger import Row as Stage
from tests.rigs.faults.load import Asked, Heard
from tests.rigs.powercut.page import render_page
from tests.rigs.powercut.rows import BY_NAME, Row
from tests.rigs.powercut.run import Outcome, find_reach, run

ALWAYS = Row("always", is_synced=True, must_lose=False, fsync_us=1_000, cuts=1, load_s=4.0)
DEFAULT = Row("default", is_synced=False, must_lose=True, cuts=1, load_s=4.0)
IN_FLIGHT = 4


@pytest.mark.slow  # a server, a router and a worker start, and the server again
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("can_slow_fsyncs")
async def test_a_server_that_syncs_always_loses_nothing_with_its_power() -> None:
    """T28: lost 0, double 0."""
    outcome = await run(ALWAYS, IN_FLIGHT, 7, print)
    print(outcome.ledger.table())
    assert outcome.asked > 20
    assert outcome.is_as_expected


@pytest.mark.slow  # the same
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("can_cut")
async def test_a_server_by_default_loses_what_it_acknowledged() -> None:
    """T28, the control: the same cut."""
    outcome = await run(DEFAULT, IN_FLIGHT, 7, print)
    print(outcome.ledger.table())
    assert outcome.lost > 0


def _an_outcome(row: Row, lost: tuple[str, ...] = ()) -> Outcome:
    stages = tuple(
        Stage(name, 9, 9 - len(lost), lost, (), ())
        for name in ("answered", "assigned", "executed", "results", "metered")
    )
    return Outcome(row, 9, True, Ledger(stages, (), {}, 9), 2.5 if lost else 0.0)


def test_a_request_that_is_lost_at_every_stage_counts_once() -> None:
    assert _an_outcome(BY_NAME["default"], ("f-1", "f-2")).lost == 2


def test_a_row_says_whether_it_is_what_it_must_be() -> None:
    told = render_page(
        {}, {}, [_an_outcome(BY_NAME["always-1"], ("f-1",)), _an_outcome(BY_NAME["default"])]
    )
    always, default = (line for line in told.splitlines() if line.startswith(("| alw", "| def")))
    assert "| 1 / 0 |" in always
    assert always.endswith("| 2.5 s | yes | no |")
    assert default.endswith("| 0.0 s | yes | no |")


def test_a_loss_is_counted_from_the_first_cut_after_its_answer() -> None:
    answered = [
        Asked("f", "chat", "acme", b"", 0.0, 0.0, answers=[Heard(at, True, "", "", False)])
        for at in (3.0, 19.0, 25.0)
    ]
    assert find_reach(answered, [10.0, 20.0]) == 7.0
    assert find_reach([], [10.0]) == 0.0
