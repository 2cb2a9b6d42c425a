"""What is remembered of an earlier request's assignment, whatever an extension wrote into its
decision.
"""

from collections.abc import Callable
from typing import Any

import pytest

from router.contracts.assignment import assignment_id_of
from router.contracts.assignment_record import Assignment
from router.contracts.decision import Decision
from router.core.deferred import Deferred
from router.decide.model.handler import find_previous
from tests.support.policy import a_request
from tests.support.workers import an_assignment


class Known:
    """One assignment, at hand."""

    def __init__(self, attempts: str) -> None:
        decision = Decision("openai", "retry", 50, 800, 0.01, {"attempts": attempts})
        self.assignment = an_assignment(
            assignment_id=assignment_id_of("acme", "r-0"), decision=decision
        )

    def recall(self, assignment_id: str) -> Assignment | None:
        return self.assignment if assignment_id == self.assignment.assignment_id else None

    def lookup(
        self, assignment_id: str, conclude: Callable[[Assignment | None], Any]
    ) -> Deferred[Any]:
        raise AssertionError("it is at hand")


@pytest.mark.parametrize(
    ("written", "attempts"),
    [("2", 2), ("", 1), ("two", 1), ("-3", 1), ("²", 1), ("9" * 5_000, 9_999)],
)
async def test_the_attempts_that_are_written_there_are_read_or_bounded(
    written: str, attempts: int
) -> None:
    previous = await find_previous(Known(written), a_request(previous_request_id="r-0"))
    assert previous is not None
    assert previous.attempts == attempts
