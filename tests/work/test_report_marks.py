"""What is stored beside a report, so that no invocation after it is its assignment's bill."""

import pytest

from router.contracts.assignment_record import read_unmarked, reported_key, unmarked_key
from router.core.outcome import PublishAck
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.work.model import ReportMark
from router.work.report_marks import AHEAD_STEPS, MAX_NOTES, SPARE_MS, STEP_MS, ReportMarks
from tests.support.workers import an_assignment

NOW_MS = 1_800_000_000_000  # a full minute
UNTIL_MS = NOW_MS + AHEAD_STEPS * STEP_MS
STORED = [PublishAck("u", "ROUTER_USAGE", 1, False), PublishAck("n", "KV_KNOWN", 1, False)]


class Bench:
    """By a clock that is moved by hand."""

    def __init__(self) -> None:
        self.now_ms = NOW_MS
        self.registered = {"echo"}
        self.marks = ReportMarks(
            JetStream(Connection()),
            "KNOWN",
            self.registered.__contains__,
            lambda: self.now_ms / 1000,
        )

    def find(
        self, provider: str = "other", requested_at_ms: int = NOW_MS, tenant: str = "acme"
    ) -> ReportMark | None:
        return self.marks.find(
            an_assignment(provider_id=provider, tenant_id=tenant, requested_at_ms=requested_at_ms)
        )

    def store(self, **given: object) -> None:
        note = self.find(**given)  # type: ignore[arg-type]
        assert note is not None
        assert note.commit is not None
        assert note.commit(STORED) is None


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_a_report_from_a_provider_that_can_be_invoked_has_a_mark_each_time(bench: Bench) -> None:
    for _ in range(2):
        mark = bench.find("echo")
        assert mark is not None
        known = an_assignment()
        assert (mark.effect.subject, mark.effect.id) == (
            f"$KV.KNOWN.{reported_key(known.assignment_id)}",
            f"reported:{known.assignment_id}",
        )
        assert mark.commit is None


def test_reports_from_another_one_share_a_note_once_it_is_stored(bench: Bench) -> None:
    first, second = bench.find(), bench.find()
    assert first is not None
    assert second is not None
    assert first.effect == second.effect
    assert first.effect.subject == f"$KV.KNOWN.{unmarked_key('acme', 'other')}"
    assert read_unmarked(first.effect.data) == UNTIL_MS
    bench.store()
    assert bench.find() is None


def test_a_note_is_of_one_tenant_and_provider(bench: Bench) -> None:
    bench.store()
    assert bench.find(tenant="globex") is not None
    assert bench.find("third") is not None


def test_a_note_is_written_again_some_time_before_its_end(bench: Bench) -> None:
    """Another instance whose clock is behind may have replaced it by an earlier one."""
    bench.store()
    assert bench.find(requested_at_ms=UNTIL_MS - SPARE_MS - 1) is None
    bench.now_ms = UNTIL_MS - SPARE_MS
    note = bench.find(requested_at_ms=bench.now_ms)
    assert note is not None
    assert read_unmarked(note.effect.data) == bench.now_ms + AHEAD_STEPS * STEP_MS


def test_a_note_covers_an_assignment_that_is_ahead_of_the_clock(bench: Bench) -> None:
    ahead_ms = NOW_MS + 10 * AHEAD_STEPS * STEP_MS
    bench.store(requested_at_ms=ahead_ms)
    assert bench.find(requested_at_ms=ahead_ms) is None


def test_a_provider_that_is_registered_has_marks_whatever_was_noted(bench: Bench) -> None:
    bench.store()
    bench.registered.add("other")
    note = bench.find()
    assert note is not None
    assert note.effect.id.startswith("reported:")


def test_the_notes_of_one_tenant_leave_those_of_another(bench: Bench) -> None:
    bench.store(tenant="quiet")
    for number in range(MAX_NOTES + 100):
        bench.store(provider=f"p-{number}", tenant="hog")
    assert bench.find(tenant="quiet") is None
    assert len(bench.marks._notes) <= MAX_NOTES
