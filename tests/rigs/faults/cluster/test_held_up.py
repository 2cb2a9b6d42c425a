"""Which step held a usage event up: the latest one of each fault, with its times."""

from tests.rigs.faults.cluster.held_up import Steps, find_held_up
from tests.rigs.faults.injector import Happened
from tests.rigs.faults.job import HEALTHY
from tests.rigs.faults.load import Asked, Heard


def an_asked(name: str, sent_at: float) -> Asked:
    return Asked(
        name, HEALTHY, "acme", b"", sent_at, sent_at, answers=[Heard(sent_at, True, "", "", True)]
    )


def steps(*asked: Asked, usage_s: float) -> Steps:
    """The result is published at once and again after six seconds, the rest waits for it."""
    ids = [one.assignment_id for one in asked]
    at = {one.assignment_id: one.sent_at for one in asked}
    return Steps(
        assigned=at,
        results={key: at[key] + 6.0 for key in ids},
        usage={key: at[key] + usage_s for key in ids},
        results_published={key: [at[key], at[key] + 6.0] for key in ids},
        usage_published={key: [at[key] + usage_s] for key in ids},
    )


def test_of_each_fault_the_latest_usage_event_is_told_with_every_step_before_it() -> None:
    first, second = an_asked("f-1", 100.0), an_asked("f-2", 101.0)
    (found,) = find_held_up(
        [Happened("paused", 99.0, 105.0)], [first, second], steps(first, second, usage_s=6.5)
    )
    assert found.name == "f-2"
    assert found.text == (
        "paused: f-2 was answered within 0.00 s (asked 1 times), metered 2.50 s after the "
        "end. Since its answer: assigned 0.00; "
        "result published 0.00, 6.00, stored 6.00; usage published 6.50, stored 6.50"
    )


def test_a_fault_that_held_nothing_up_is_not_told() -> None:
    one = an_asked("f-1", 100.0)
    assert find_held_up([Happened("paused", 99.0, 105.0)], [one], steps(one, usage_s=1.9)) == []
