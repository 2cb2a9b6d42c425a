"""The demo's judgement: it must see what did not come right."""

from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from router.cli.demo.chapters import POISONED, check_repair
from router.cli.demo.round_trip import MessageRecorder, ObservedMessage, check_round_trip
from router.contracts.headers import MESSAGE_ID
from router.core.outcome import VALIDATION_FAILED
from router.operate.dead_letters import DeadLetter, NotReplayed, ReplayReport

DECISION = {"provider_id": "openai"}
WORK = {"assignment_id": "a-1", "status": "success", "cost": 0.1, "request_id": "r-circle"}
LETTER = DeadLetter(
    sequence=1,
    stored_at="",
    subject="s.dlq",
    original_subject="s",
    reason=VALIDATION_FAILED,
    payload=POISONED,
)
METERED = [{"request_id": "r-mended"}]


def a_way(**odd: dict[str, Any]) -> tuple[ObservedMessage, ...]:
    bodies = {
        "request": {},
        "decision": {"ok": True, "decision": DECISION},
        "assignment": {"assignment_id": "a-1", "decision": DECISION},
        "acknowledgement": {"assignment_id": "a-1", "status": "accepted"},
        "result": WORK,
        "usage": WORK,
    }
    return tuple(
        ObservedMessage(name, "s", "", 0.0, {**body, **odd.get(name, {})})
        for name, body in bodies.items()
    )


def test_a_circle_that_went_round_has_nothing_wrong() -> None:
    assert list(check_round_trip(a_way(), "accepted")) == []


@pytest.mark.parametrize(
    "odd",
    [
        {"decision": {"ok": False}},
        {"decision": {"decision": {"provider_id": "other"}}},
        {"acknowledgement": {"assignment_id": "a-2"}},
        {"acknowledgement": {"status": "rejected"}},
        {"result": {"assignment_id": "a-2"}},
        {"result": {"status": "error"}},
        {"usage": {"cost": 0.2}},
        {"usage": {"request_id": "r-other"}},
    ],
)
def test_a_circle_that_went_astray_is_seen(odd: dict[str, dict[str, Any]]) -> None:
    assert list(check_round_trip(a_way(**odd), "accepted"))


def test_an_acknowledgement_that_is_not_on_its_assignment_is_seen() -> None:
    assert list(check_round_trip(a_way(), "unacknowledged"))


def test_a_result_that_was_mended_has_nothing_wrong() -> None:
    assert list(check_repair(LETTER, None, ReplayReport(sent=1), METERED)) == []


@pytest.mark.parametrize(
    ("letter", "left", "report", "usage"),
    [
        (None, None, ReplayReport(sent=1), METERED),
        (replace(LETTER, payload=b"another"), None, ReplayReport(sent=1), METERED),
        (LETTER, LETTER, ReplayReport(sent=1), METERED),
        (LETTER, None, ReplayReport(kept=[NotReplayed(1, "no stream")]), METERED),
        (LETTER, None, ReplayReport(sent=1), []),
        (LETTER, None, ReplayReport(sent=1), METERED * 2),
    ],
)
def test_a_result_that_was_not_mended_is_seen(
    letter: DeadLetter | None, left: DeadLetter | None, report: ReplayReport, usage: list[Any]
) -> None:
    assert list(check_repair(letter, left, report, usage))


def test_a_copy_that_a_publisher_sends_again_is_not_kept() -> None:
    """A machine that takes a second for a publish ack would show an event twice that is metered
    once.
    """
    recorder = MessageRecorder()
    for text in ("u-1", "u-1", "u-2"):
        recorder.on_message("usage", "", orjson.dumps({"of": text}), {MESSAGE_ID: text})
    assert recorder.list_bodies("usage") == [{"of": "u-1"}, {"of": "u-2"}]
    recorder.begin()
    recorder.on_message("usage", "", b"{}", {MESSAGE_ID: "u-2"})
    assert recorder.list_bodies("usage") == []
    recorder.on_message("results", "", b"{}", {MESSAGE_ID: "u-2"})
    recorder.on_message("results", "", b"{}", None)
    assert recorder.list_bodies("results") == [{}, {}]
