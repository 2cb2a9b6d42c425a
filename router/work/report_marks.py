"""What says that an assignment's worker has reported, or that this is not known
(docs/reference/extensions.md#covered).

    its provider can be invoked    a mark under the assignment's key: no attempt from now on is its
                                   bill
    it cannot                      it may be registered later. One note, for all reports of this
                                   tenant from this provider,
                                   says that those of assignments requested until then may have no
                                   mark

A mark and a note are effects of the result: stored before its ack. So where a process dies between,
the result comes again with them. A mark is stored before the usage event too: an attempt that
claims the assignment without seeing it has its event while the stream knows the result's as a
duplicate. A note is stored beside the event, so that a bucket without room delays no ordinary
result's bill; it is written ahead, and covers the reports of some minutes: they pay a look in a
cache.

Two instances write one note by clocks that may differ. So an instance relies on a note only up to
SPARE_MS before its end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.contracts.assignment import Assignment
from router.contracts.assignment_record import reported_key, unmarked_key
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock
from router.core.ids import bucket_prefix
from router.core.message import Effect
from router.core.outcome import PublishAck
from router.delivery.wire.api import JetStream
from router.work.model import ReportMark

REPORTED = b"reported"
STEP_MS = 60_000  # notes end at full minutes: what is on its way at one time is one note
AHEAD_STEPS = 3
SPARE_MS = 60_000
MAX_NOTES = 10_000  # pairs of tenant and provider, of which each tenant has its share


class ReportMarks:
    """`results.Marks`. `can_be_invoked`: a provider, as far as this instance knows. `clock`: the
    server's.
    """

    def __init__(
        self,
        jetstream: JetStream,
        assignments: str,
        can_be_invoked: Callable[[str], bool],
        clock: Clock,
    ) -> None:
        self._prefix = jetstream.write_subject(bucket_prefix(assignments))
        self._can_be_invoked = can_be_invoked
        self._clock = clock
        # those that are stored: until when
        self._notes: BoundedCache[str, int] = BoundedCache(MAX_NOTES)

    def find(self, assignment: Assignment) -> ReportMark | None:
        """What is to be stored beside the report of this assignment; nearly always nothing."""
        if self._can_be_invoked(assignment.provider_id):
            return ReportMark(self._make_mark(assignment.assignment_id), goes_first=True)
        pair = f"{assignment.tenant_id} {assignment.provider_id}"
        until_ms = self._notes.peek(pair, assignment.requested_at_ms + SPARE_MS)
        return self._make_note(assignment, pair) if until_ms is None else None

    def _make_mark(self, assignment_id: str) -> Effect:
        return Effect(
            self._prefix + reported_key(assignment_id), REPORTED, f"reported:{assignment_id}"
        )

    def _make_note(self, assignment: Assignment, pair: str) -> ReportMark:
        latest_ms = max(round(self._clock() * 1000), assignment.requested_at_ms)
        until_ms = (latest_ms // STEP_MS + AHEAD_STEPS) * STEP_MS
        subject = self._prefix + unmarked_key(assignment.tenant_id, assignment.provider_id)
        effect = Effect(subject, b"%d" % until_ms, f"unmarked:{pair}:{until_ms}")

        def on_stored(_: Sequence[PublishAck]) -> None:
            self._notes.put(pair, until_ms, until_ms, latest_ms, owner=assignment.tenant_id)

        return ReportMark(effect, on_stored)
