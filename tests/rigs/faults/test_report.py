"""Several runs as one page: counts are added up, each run keeps its verdict."""

from tests.rigs.faults.injector import Happened
from tests.rigs.faults.ledger import Ledger, Row
from tests.rigs.faults.recovery import Recovered, line
from tests.rigs.faults.report import Report, page, tables


def a_report(
    seed: int, lost: tuple[str, ...] = (), *, is_quiet: bool = True, deaths: int = 0
) -> Report:
    recovered = [Recovered("store full", 0.5 * seed, 1.0, 3.0)]
    return Report(
        seed=seed,
        minutes=5.0,
        rate=40.0,
        is_quiet=is_quiet,
        happened=[Happened("store full", 1.0, 2.0)],
        recovered=recovered,
        lines=[line("store full", recovered, 100, len(lost), 0)],
        balance=Ledger((Row("metered", 100, 100 - len(lost), lost, (), ()),), (), {}, 110),
        deaths={"router-1": deaths},
        starts_s=[1.5],
    )


def test_runs_are_added_up() -> None:
    told = tables([a_report(1), a_report(3, lost=("f-1", "f-2"))])
    assert "| store full | 2 | 200 | 2 | 0 | 1.50 | 1.50 | 1.00 | 1.00 | 3.00 |" in told
    assert "| metered | 200 | 198 | 2 | 0 | 0 |" in told
    assert "Asked 220 times in all." in told


def test_a_run_that_lost_something_or_was_never_quiet_is_not_clean() -> None:
    assert a_report(1).is_clean
    assert not a_report(1, lost=("f-1",)).is_clean
    assert not a_report(1, is_quiet=False).is_clean


def test_a_run_in_which_a_process_ended_by_itself_is_not_clean() -> None:
    assert not a_report(1, deaths=1).is_clean


def test_a_page_tells_every_verdict_and_the_control() -> None:
    told = page([a_report(1), a_report(2)], control=a_report(9, lost=("f-1",)))
    assert "Seed 1, 5 minutes of faults at 40 requests a second: clean." in told
    assert "Seed 2, 5 minutes of faults at 40 requests a second: clean." in told
    assert (
        "Seed 9, 5 minutes of faults at 40 requests a second: NOT CLEAN."
        in told.partition("## The control")[2]
    )
