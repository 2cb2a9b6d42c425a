"""The page tells what was measured: a row of each tree, verdicts, the overload's promises."""

from msgspec.structs import replace

from tests.rigs.neighbours.__main__ import status_of
from tests.rigs.neighbours.figures import Experience
from tests.rigs.neighbours.page import render_page
from tests.rigs.neighbours.result import Results, RowResult, Sample, TreeResults
from tests.rigs.neighbours.verdicts import MACHINE, NO, YES, judge, overload_checks


def a_feeling(p99_ms: float = 2.0, lost: int = 0) -> Experience:
    return Experience(300, 1.0, p99_ms, lost, {})


def a_row(
    name: str = "flood",
    *,
    beside: Experience | None = None,
    again: float | None = 1.0,
    commit: str = "new",
    **did: object,
) -> RowResult:
    return RowResult(
        row=name,
        commit=commit,
        seconds=15.0,
        alone=a_feeling(),
        beside=beside or a_feeling(),
        after=a_feeling(),
        normal_again_s=again,
        looked_s=8.0,
        samples=[Sample(1.0, 70.0), Sample(14.0, 72.0)],
        resident_before_mib=60.0,
        router_cpu=0.5,
        server_cpu=0.4,
        is_running=True,
        neighbour={
            "sent": 100,
            "is_answered": True,
            "answers": {"decided": 10, "overloaded": 80},
            **did,
        },
    )


def a_run(*found: RowResult, control: tuple[RowResult, ...] = ()) -> Results:
    trees = [TreeResults("new", 20_000.0, list(found))]
    return Results(
        {"date": "today"},
        15.0,
        trees + ([TreeResults("old", 19_000.0, list(control))] if control else []),
    )


def test_the_control_stands_beneath_each_row() -> None:
    told = render_page(
        a_run(a_row(), control=(a_row(beside=a_feeling(5000.0, 300), again=None, commit="old"),))
    )
    row, control = (
        line for line in told.splitlines() if line.startswith(("| flood | 1.0", "| · old | 1.0"))
    )
    assert row == "| flood | 1.0 | 2.0 | 0 | 1.0 | 2.0 | 0 | 1.0 | 1 s | 72 (60) | yes |"
    assert control == (
        "| · old | 1.0 | 2.0 | 0 | 1.0 | > 5000 | 300 of 300 | > 2500.0 | not in 8 s | 72 "
        "(60) | **no** |"
    )


def test_what_a_neighbour_sent_and_heard_is_told() -> None:
    told = render_page(
        a_run(a_row(first_overloaded_ms=12.4, overloaded_p50_ms=3.2, overloaded_p99_ms=20.1))
    )
    assert "| 100 | 80 overloaded; 10 decided; 10 none | 12, 3, 20 |" in told


def test_a_row_that_is_as_slow_as_its_noise_was_slowed_by_the_machine() -> None:
    noise = a_row("noise, stored", beside=a_feeling(30.0))
    assert judge(a_row(beside=a_feeling(40.0)), [noise]) == MACHINE
    assert judge(a_row(beside=a_feeling(50.0)), [noise]) == NO
    assert judge(a_row(beside=a_feeling(40.0, lost=1)), [noise]) == NO
    assert judge(a_row(beside=a_feeling(40.0)), []) == NO
    assert (judge(noise, []), judge(a_row(), [])) == ("", YES)


def test_a_router_that_does_not_answer_again_or_has_ended_is_told_as_such() -> None:
    silent = replace(a_row(again=None), after=Experience(100, 5000.0, 5000.0, 100, {}))
    assert "| not in 8 s, silent |" in render_page(a_run(silent))
    assert "| the router ended |" in render_page(a_run(replace(silent, is_running=False)))


def test_an_overload_is_bounded_told_and_over_soon() -> None:
    good = a_row("overload", overloaded_p99_ms=12.0, first_overloaded_ms=9.0, overloaded_p50_ms=3.0)
    assert list(overload_checks(good).values()) == [True, True, True]
    assert "- of the flood: 10.0 % decided, 80.0 % overloaded, 10.0 % unanswered" in render_page(
        a_run(good)
    )
    grown = replace(
        good, samples=[Sample(1.0, 70.0), Sample(14.0, 90.0)], normal_again_s=None, neighbour={}
    )
    assert list(overload_checks(grown).values()) == [False, False, False]


def test_the_status_is_that_of_the_promises_of_our_own_code() -> None:
    bad = a_row(beside=a_feeling(5000.0, 300))
    assert status_of(a_run(a_row(), control=(bad,))) == 0
    assert status_of(a_run(bad)) == 1
    assert (
        status_of(
            Results({}, 15.0, [TreeResults("new", 1.0, [], {"flood": "the router is not ready"})])
        )
        == 2
    )
