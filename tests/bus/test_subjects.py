"""Which subject a message goes to."""

import pytest

from router.bus.subjects import (
    COMMAND_NAMES,
    DOMAINS,
    UnknownSubject,
    command_subject,
    domain_of,
    event_subject,
    query_subject,
)

# docs/reference/requirements.md#sr-18, the table.
LISTED = {
    "loop": ("LoopCreated", "LoopActivated", "LoopPaused", "LoopClosed"),
    "iteration": ("IterationStarted", "IterationCompleted"),
    "candidate": ("CandidateRegistered", "CandidatePromoted"),
    "run": ("RunStarted", "RunCompleted"),
    "oracle": ("OracleResultRecorded",),
    "governance": ("GovernanceActionRecorded",),
    "freeze": ("FreezeCreated", "FreezeLifted"),
    "staleness": ("StalenessDetected", "StalenessCleared"),
    "approval": ("ApprovalRequested", "ApprovalRecorded"),
    "exception": ("ExceptionRaised", "ExceptionResolved"),
    "decision": ("DecisionRecorded",),
    "worksurface": ("WorkSurfaceCreated", "WorkSurfaceArchived"),
}


@pytest.mark.parametrize(
    ("domain", "message_type"), [(domain, one) for domain, types in LISTED.items() for one in types]
)
def test_every_listed_event_has_the_subject_of_its_domain(domain: str, message_type: str) -> None:
    """SR-18: the pattern `sr.<stream>.<domain>`, and every event type of the table."""
    assert event_subject("sr", message_type) == f"sr.events.{domain}"


def test_there_are_thirteen_event_subjects() -> None:
    """SR-18, SR-19."""
    assert {*DOMAINS.values(), domain_of("")} == {*LISTED, "other"}
    assert len(LISTED) + 1 == 13


@pytest.mark.parametrize(
    "message_type",
    ["UserCreated", "loopCreated", "Loop", "LooperStarted", "RunawayDetected", "Loops", "*", "a.b"],
)
def test_an_event_of_no_domain_is_other(message_type: str) -> None:
    """SR-19: and no type of a sender's choice can become a part of a subject."""
    assert event_subject("sr", message_type) == "sr.events.other"


def test_the_four_commands_have_the_subjects_of_the_table() -> None:
    """SR-20."""
    assert [command_subject("sr", one) for one in COMMAND_NAMES] == [
        "sr.commands.iteration.start",
        "sr.commands.iteration.complete",
        "sr.commands.candidate.register",
        "sr.commands.oracle.run",
    ]


@pytest.mark.parametrize(
    "command", ["", "iteration", "iteration.stop", "iteration.start.now", ">", "oracle.*"]
)
def test_a_command_that_no_page_lists_has_no_subject(command: str) -> None:
    """SR-20."""
    with pytest.raises(UnknownSubject):
        command_subject("sr", command)


@pytest.mark.parametrize("query", ["", "a.b", "*", ">", "two words"])
def test_a_query_is_one_token(query: str) -> None:
    """SR-15: `sr.queries.*` takes one."""
    assert query_subject("acme", "status") == "acme.queries.status"
    with pytest.raises(UnknownSubject):
        query_subject("acme", query)
