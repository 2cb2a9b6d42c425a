"""The ledger finds what is planted, and nothing else."""

import time

import pytest
from msgspec.structs import replace

from tests.rigs.faults.injector import Happened
from tests.rigs.faults.job import HEALTHY, HOPELESS
from tests.rigs.faults.ledger import Facts, Letter, Row, balanced
from tests.rigs.faults.load import POISONED, SINGLE, Asked, Heard
from tests.rigs.faults.recovery import lines, recovered


def heard(said: str = "openai", *, at: float = 1.0, is_decision: bool = True) -> Heard:
    return Heard(at, is_decision, "" if is_decision else said, said, is_decision)


def asked(name: str, kind: str = HEALTHY, *answers: Heard, sent_at: float = 0.0) -> Asked:
    return Asked(
        name,
        kind,
        "acme",
        b"?" if kind == POISONED else b"",
        sent_at,
        sent_at,
        answers=list(answers or (heard(),)),
    )


GOOD = asked("f-1")
HARD = asked("f-2", HOPELESS)
BAD = asked("f-3", POISONED, heard("invalid_request", is_decision=False))


def facts(**planted: object) -> Facts:
    """A clean run of three requests and a poisoned result; `planted` replaces what was found."""
    clean = Facts(
        asked={one.name: one for one in (GOOD, HARD, BAD)},
        poisons={"poison-1": b"!"},
        copies=[("f-3", 7)],
        assigned=["f-1", "f-2"],
        executed=[GOOD.assignment_id, HARD.assignment_id],
        results=[GOOD.assignment_id],
        hopeless=[HARD.assignment_id],
        metered=[GOOD.assignment_id],
        dead_letters=[Letter("f-3", 7, b"?")],
        result_letters=[Letter("poison-1", 9, b"!")],
    )
    return replace(clean, **planted)


def found(row: Row) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    return row.lost, row.double, row.unexpected


def test_a_clean_run_is_clean() -> None:
    ledger = balanced(facts())
    assert ledger.is_clean
    assert (ledger.lost, ledger.double, ledger.unexpected) == ([], [], [])


@pytest.mark.parametrize(
    ("planted", "name", "expected"),
    [
        ({"assigned": ["f-2"], "executed": [HARD.assignment_id]}, "assigned", (("f-1",), (), ())),
        ({"assigned": ["f-1", "f-1", "f-2"]}, "assigned", ((), ("f-1",), ())),
        ({"assigned": ["f-1", "f-2", "f-9"]}, "assigned", ((), (), ("f-9",))),
        ({"executed": [HARD.assignment_id]}, "executed", (("f-1",), (), ())),
        ({"results": []}, "results", (("f-1",), (), ())),
        ({"results": [GOOD.assignment_id] * 2}, "results", ((), ("f-1",), ())),
        ({"hopeless": []}, "given up by workers", (("f-2",), (), ())),
        (
            {"hopeless": [HARD.assignment_id, GOOD.assignment_id]},
            "given up by workers",
            ((), (), ("f-1",)),
        ),
        ({"metered": []}, "metered", (("f-1",), (), ())),
        ({"metered": [GOOD.assignment_id] * 3}, "metered", ((), ("f-1", "f-1"), ())),
        ({"metered": [GOOD.assignment_id, HARD.assignment_id]}, "metered", ((), (), ("f-2",))),
        ({"dead_letters": []}, "letters of requests", (("f-3",), (), ())),
        ({"dead_letters": [Letter("f-3", 7, b"?")] * 2}, "letters of requests", ((), ("f-3",), ())),
        (
            {"dead_letters": [Letter("f-3", 7, b"another")]},
            "letters of requests",
            (("f-3",), (), ("f-3",)),
        ),
        (
            {"dead_letters": [Letter("f-3", 7, b"?"), Letter("f-1", 5, b"")]},
            "letters of requests",
            ((), (), ("f-1",)),
        ),
        ({"result_letters": []}, "letters of results", (("poison-1",), (), ())),
    ],
)
def test_what_is_planted_is_found(
    planted: dict[str, object], name: str, expected: tuple[tuple[str, ...], ...]
) -> None:
    ledger = balanced(facts(**planted))
    assert not ledger.is_clean
    assert {row.name: found(row) for row in ledger.rows}[name] == expected


def test_a_dead_letter_of_what_was_no_poison_is_told_with_its_reason_and_what_was_answered() -> (
    None
):
    letters = [Letter("f-3", 7, b"?"), Letter("f-1", 5, b"", "maxdeliver_exhausted", 3)]
    ledger = balanced(facts(dead_letters=letters))
    assert ledger.strange == (
        "f-1, asked 1 times: maxdeliver_exhausted after 3 attempts; answered: "
        + GOOD.answers[0].said,
    )


def test_work_may_be_done_again_and_an_answer_come_twice() -> None:
    """docs/reference/contracts.md#matching: an answer may come twice, never a different one."""
    twice = asked("f-1", HEALTHY, heard(), heard(at=2.0))
    ledger = balanced(
        facts(
            asked={"f-1": twice, "f-2": HARD, "f-3": BAD},
            executed=[GOOD.assignment_id] * 2 + [HARD.assignment_id],
        )
    )
    assert ledger.is_clean
    assert [row.double for row in ledger.rows if row.may_repeat] == [("f-1",), ("f-1",)]


def test_an_answer_that_differs_from_the_first_is_no_good() -> None:
    changed = asked("f-1", HEALTHY, heard("openai"), heard("anthropic"))
    ledger = balanced(facts(asked={"f-1": changed, "f-2": HARD, "f-3": BAD}))
    assert ledger.different == (("f-1", "openai", "anthropic"),)
    assert not ledger.is_clean


def test_what_was_refused_may_not_be_assigned() -> None:
    refused = asked("f-1", HEALTHY, heard("overloaded", is_decision=False))
    ledger = balanced(facts(asked={"f-1": refused, "f-2": HARD, "f-3": BAD}))
    assert {row.name: row.unexpected for row in ledger.rows}["assigned"] == ("f-1",)
    assert ledger.refused == {"overloaded": 1}


def test_a_request_is_counted_where_its_fault_had_begun_last() -> None:
    """And recovery is from a fault's end to the first that works after it."""
    began = time.monotonic()
    happened = [
        Happened("store full", began + 10, began + 12),
        Happened("server killed", began + 20, began + 21),
    ]
    early = asked("f-1", HEALTHY, heard(at=began + 12.5), sent_at=began + 9.5)
    late = asked("f-2", HEALTHY, heard(at=began + 23), sent_at=began + 20.5)
    ledger = balanced(facts(asked={"f-1": early, "f-2": late}, metered=[GOOD.assignment_id]))
    metered_at = [began + 13, began + 25]
    first, second = recovered(happened, [early, late], metered_at)
    assert (first.answer_s, first.usage_s, first.longest_s) == pytest.approx((0.5, 1.0, 3.0))
    assert (second.answer_s, second.usage_s, second.longest_s) == pytest.approx((2.0, 4.0, 2.5))
    by_kind = {
        line.kind: (line.sent, line.lost)
        for line in lines(happened, {"f-1": early, "f-2": late}, metered_at, ledger)
    }
    assert by_kind["store full"] == (1, 0)
    assert by_kind["server killed"][1] > 0, "f-2 was decided and never metered"


def test_a_single_request_is_expected_to_be_answered_if_its_stream_has_it() -> None:
    """A cluster without a leader stores nothing and says nothing; these are not lost."""
    silent = {name: replace(asked(name, SINGLE), answers=[]) for name in ("f-4", "f-5")}
    ledger = balanced(
        facts(
            asked={"f-1": GOOD, "f-2": HARD, "f-3": BAD, **silent},
            stored_singles=frozenset({"f-4"}),
        )
    )
    rows = {row.name: row for row in ledger.rows}
    assert found(rows["single plain requests"]) == (("f-4",), (), ())
    assert rows["answered"].is_clean


@pytest.mark.parametrize("refusal", ["expired", "overloaded"])
def test_a_single_request_may_be_refused_for_now_besides_its_answer(refusal: str) -> None:
    """docs/reference/contracts.md#expired, #overloaded: a redelivered copy that pushed nothing; a
    decision that differs is none the less one.
    """
    twice = asked("f-4", SINGLE, heard("openai"), heard(refusal, is_decision=False))
    changed = asked("f-5", SINGLE, heard("openai"), heard("anthropic"))
    ledger = balanced(
        facts(asked={"f-1": GOOD, "f-2": HARD, "f-3": BAD, "f-4": twice, "f-5": changed})
    )
    assert ledger.different == (("f-5", "openai", "anthropic"),)
