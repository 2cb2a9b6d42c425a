"""The bench itself: a run of it ends in a report that is whole, and its arithmetic is right."""

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import router as product
from bench import decide_load, decide_volume, document, report, stretch
from bench.figures import percentile
from bench.plan import Plan, clock
from bench.question import Absent, Broken, Figure, Measured, Question, Side, at_least, at_most
from bench.rounds import Line, ask, lines
from bench.run import Run
from bench.sides.pacer import Pacer
from tests.support.cli import call_command_async, router

FAST = ("policy_engine", "dead_letters")


# -- a run -----------------------------------------------------------------------------------------


@pytest.mark.timeout(180)
@pytest.mark.slow  # nine processes, each with its imports
def test_a_short_round_on_real_servers_is_a_whole_report(tmp_path: Path) -> None:
    """What CI runs of the bench; `make bench-smoke` runs every question so."""
    file = tmp_path / "found.json"
    only = [word for name in FAST for word in ("--only", name)]
    command = [sys.executable, "-m", "bench", "--smoke", *only, "--output", str(file), "--json"]
    ended = subprocess.run(command, capture_output=True, check=False)
    assert ended.returncode == 0, ended.stderr.decode()[-2000:]
    found = document.read(file)
    assert json.loads(ended.stdout) == json.loads(file.read_bytes())
    assert (set(found.questions), found.broken) == (set(FAST), {})
    assert all(line.ours.median > 0 for line in found.lines if "blocks" not in line.figure.name)
    assert {line.question for line in found.lines} == set(FAST)
    assert {"date", "command", "CPU", "nats-server", "Python"} <= set(found.machine)
    table = [
        row for row in file.with_suffix(".md").read_text().splitlines() if row.startswith("| ")
    ]
    assert len(table) == 2 + len(found.lines)
    assert not file.with_suffix(".part.json").exists()


async def test_a_question_that_breaks_does_not_take_the_others_with_it() -> None:
    async def breaks(_: float) -> Measured:
        raise Broken("a side ended early:\nno word of why")

    kept, told = [], list[str]()
    plan = Plan((a_question("bad", breaks), a_question("good", constant(2.0))), 1, 1.0)
    run = Run(
        plan, told.append, lambda run: kept.append([answer.question.name for answer in run.answers])
    )
    await run.go()
    assert (set(run.broken), kept) == ({"bad"}, [[], ["good"]])
    assert "bad is broken: no word of why" in told
    found = document.document(run.answers, run.broken, {})
    assert "- bad is broken: a side ended early: no word of why" in report.markdown(found, {})


def test_what_is_finished_is_kept_until_the_whole_is_written(tmp_path: Path) -> None:
    file = tmp_path / "bench.json"
    found = document.Document({"date": "today"}, [], {})
    part = report.keep(found, file)
    assert (document.read(part), file.exists()) == (found, False)
    report.write(found, file)
    assert (document.read(file), part.exists()) == (found, False)


@pytest.mark.slow  # matplotlib makes a list of the machine's fonts the first time
def test_what_was_asked_is_drawn(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    figures = {
        f"{name}_{share}_ms": float(share)
        for name in ("p50", "p99", "p999")
        for share in decide_load.SHARES
    }
    load = document.Asked("?", {side.name: [figures] for side in decide_load.QUESTION.sides})
    volume = document.Asked(
        "?", {name: [{"cpu_us": 40.0, "rss_100_mib": 100.0}] for name in decide_volume.VOLUMES}
    )
    found = document.Document({}, [], {"decide_load": load, "decide_volume": volume})
    report.write(found, tmp_path / "bench.json")
    stems = ("bench_latency_against_load", "bench_cost_against_volume")
    assert {file.name for file in tmp_path.glob("bench_*")} == {f"{stem}.svg" for stem in stems}
    page = (tmp_path / "bench.md").read_text()
    assert all(f"({stem}.svg)" in page for stem in stems)
    text = (tmp_path / "bench_latency_against_load.svg").read_text()
    assert all(
        words in text
        for words in (
            "milliseconds from when it was due",
            "load, % of its capacity",
            "p99.9",
            "router, scraped",
        )
    )


# -- its arithmetic --------------------------------------------------------------------------------


async def test_a_ratio_is_taken_inside_a_round_and_judged_by_its_median() -> None:
    """The rounds are 4, 1 and 1; medians, 3 to 2, would be 1.5."""
    figure = Figure("rate", "1/s", against="theirs", target=at_least(1.2))
    (line,) = await asked(figure, ours=(4.0, 3.0, 2.0), theirs=(1.0, 3.0, 2.0))
    assert line.ratio is not None
    assert (line.ratio.median, line.ratio.least, line.ratio.most) == (1.0, 1.0, 4.0)
    assert line.is_met is False


async def test_a_yardstick_that_cannot_be_had_is_told_in_its_row_and_judges_nothing() -> None:
    async def ours(_: float) -> Measured:
        return {"rate": 1.0}

    async def theirs(_: float) -> Measured:
        raise Absent("no index has it")

    figure = Figure("rate", "1/s", against="theirs", target=at_least(5))
    question = Question("q", "?", (Side("ours", ours), Side("theirs", theirs)), (figure,))
    answer = await ask(question, 2, 1.0, lambda *_: None)
    (line,) = lines(answer)
    assert (line.absent, line.theirs, line.is_met) == ("no index has it", None, None)
    page = report.markdown(document.document([answer], {}, {}), {})
    assert "theirs: no index has it" in page


async def test_every_other_round_measures_the_sides_in_reverse_order() -> None:
    measured = list[str]()

    def side(name: str) -> Side:
        async def measure(_: float) -> Measured:
            measured.append(name)
            return {"rate": float(len(measured))}

        return Side(name, measure)

    question = Question(
        "q",
        "?",
        (side("ours"), side("theirs"), side("third")),
        (Figure("rate", "1/s", against="theirs"),),
    )
    answer = await ask(question, 3, 1.0, lambda *_: None)
    assert measured == [
        "ours",
        "theirs",
        "third",
        "third",
        "theirs",
        "ours",
        "ours",
        "theirs",
        "third",
    ]
    assert list(answer.rounds) == ["ours", "theirs", "third"]
    assert lines(answer)[0].ours.median == 6.0  # of 1, 6 and 7: each figure stays its side's


async def test_a_figure_may_be_another_sides_than_the_first() -> None:
    (line,) = await asked(
        Figure("rate", "1/s", of="theirs", target=at_most(2)), ours=(9.0,), theirs=(2.0,)
    )
    assert (line.ours.median, line.is_met) == (2.0, True)


def test_a_plan_tells_what_is_left() -> None:
    first = Question("first", "", (), (), lasts=(2.0, 100.0))
    second = Question("second", "", (), (), lasts=(1.0, 10.0), most_rounds=1)
    plan = Plan((first, second), 5, 0.1)
    assert (plan.all_s(), plan.left_s(1, 2), plan.left_s(2, 1)) == (62.0, 38.0, 0.0)
    assert clock(plan.all_s()) == "1:02"


class Prompt:
    """A connection that answers at once, and whose first `post` takes 50 ms, as if the machine had
    stalled.
    """

    def __init__(self) -> None:
        self.posts = 0
        self._hear: Callable[..., None] = print

    def new_inbox(self) -> str:
        return "_INBOX.x"

    async def subscribe_direct(self, _: str, hear: Callable[..., None]) -> int:
        self._hear = hear
        return 1

    async def unsubscribe(self, _: int) -> None: ...

    async def flush(self) -> None: ...

    def publish_nowait(self, _: str, __: bytes, inbox: str, ___: bytes) -> None:
        self.posts += 1
        if self.posts == 1:
            time.sleep(0.05)
        asyncio.get_running_loop().call_soon(self._hear, inbox, "", b'{"ok":true}', None)


async def test_an_open_loop_counts_a_stall_for_everyone_who_came_due_in_it() -> None:
    """A closed loop would show one slow answer of a hundred."""
    pacer = Pacer(Prompt(), "s", 0, 100, rate=1_000.0)  # type: ignore[arg-type]
    await pacer.run()
    slow = [seconds for seconds in pacer.seconds.values() if seconds > 0.005]
    assert (len(pacer.seconds), pacer.wrong) == (100, 0)
    assert len(slow) >= 40
    assert percentile(sorted(pacer.late), 99) > 0.04


async def test_an_open_loop_counts_refusals_apart_and_an_answer_that_comes_twice_is_wrong() -> None:
    pacer = Pacer(Prompt(), "s", 0, 3, rate=1_000.0)  # type: ignore[arg-type]
    refusal = b'{"ok":false,"error":{"code":"overloaded"}}'
    for place, answer in ((0, b'{"ok":true}'), (1, refusal), (0, b'{"ok":true}'), (2, b"{}")):
        pacer._heard(f"inbox.{place}", "", answer, None)
    assert (list(pacer.seconds), pacer.refused, pacer.wrong) == ([0], 1, 2)
    assert pacer._ended.is_set()


async def test_a_side_whose_messages_come_to_an_end_early_says_how_many_were_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stretch, "PATIENCE_S", 0.02)
    with pytest.raises(TimeoutError, match="7 of 8 finished"):
        await stretch.reaches(lambda: 7, 8)


# -- the command -----------------------------------------------------------------------------------


def test_the_command_is_the_benchs_own() -> None:
    ended = router("bench", "--help")
    assert (ended.status, "decide_backlog" in ended.out) == (0, True)


async def test_an_installed_package_says_where_the_bench_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(product, "__file__", str(tmp_path / "router" / "__init__.py"))
    ended = await call_command_async("bench", "--smoke")
    assert ended.status == 2
    assert "clone the repository, and run `make bench` there" in ended.err


# -- builders --------------------------------------------------------------------------------------


RATE = Figure("rate", "1/s")


async def test_a_run_too_short_to_judge_judges_no_target() -> None:
    answer = await ask(
        a_question("q", constant(1.0), figure=Figure("rate", "1/s", target=at_least(2.0))),
        1,
        1.0,
        lambda *_: None,
    )
    assert [line.is_met for line in document.document([answer], {}, {}).lines] == [False]
    assert [line.is_met for line in document.document([answer], {}, {}, is_judged=False).lines] == [
        None
    ]


def constant(*rates: float) -> Callable[[float], object]:
    left = iter(rates)

    async def measure(_: float) -> Measured:
        return {"rate": next(left)}

    return measure


def a_question(name: str, measure: object, *more: Side, figure: Figure = RATE) -> Question:
    return Question(name, "?", (Side("ours", measure), *more), (figure,))  # type: ignore[arg-type]


async def asked(
    figure: Figure, *, ours: tuple[float, ...], theirs: tuple[float, ...]
) -> list[Line]:
    question = a_question("q", constant(*ours), Side("theirs", constant(*theirs)), figure=figure)  # type: ignore[arg-type]
    return lines(await ask(question, len(ours), 1.0, lambda *_: None))
