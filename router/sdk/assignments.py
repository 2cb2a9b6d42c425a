"""One assignment in, one outcome out: acknowledged, handled, and what is to be stored of it.

    handled            -> Done: its result is stored                        ack: accepted
    hopeless           -> Done: a dead letter is stored instead             ack: accepted
    not accepted here  -> Retry: another worker may; at last a dead letter  ack: rejected
    not readable       -> Dead: a dead letter                               ack: error, where it has
                       an id
    done elsewhere     -> Done: before the durable was made (`start_point`)  ack: none
    no thread is free  -> it waits; when the worker stops, it goes back      ack: none yet;
                       accepted, where it waits for another attempt

Acknowledgements are a plain publish: there may be no listener (`ack_enabled`), and nothing waits
for them.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from router.contracts import acknowledgement, heartbeat, result
from router.contracts.acknowledgement import ACCEPTED, ERROR, REJECTED, ExecAssignmentAck
from router.contracts.exec_assignment import ExecAssignment, read_exec_assignment
from router.contracts.headers import message_id_in
from router.contracts.unread_report import UNREAD_SUBJECT
from router.core.clock import now_ms
from router.core.errors import Poison
from router.core.masking import shorten
from router.core.message import Effect, Message
from router.core.outcome import Done, Fault, Outcome, Retry
from router.core.user_functions import contain_exit, require_finished, text_of
from router.delivery.publish.encoded_headers import EncodedHeaders, head_with_id
from router.delivery.wire.connection import Connection
from router.process.observability import LogRateLimit, events, logs
from router.sdk import reports
from router.sdk.attempts import Attempts, AttemptsResult, NoThread
from router.sdk.start_point import StartPoint
from router.sdk.step import NO_ATTEMPT_LEFT, UNREADABLE_CODE, UNSENDABLE, StepResult, build_failure

log = logs.logger(__name__)

_ROOM_FOR_HEADERS = 4096  # of the server's max_payload, which counts them too

# another worker does it
NO_THREAD = Retry(
    Fault("rejected", "the worker stops, and no thread is free"), 0.0, uses_attempt=False
)

Accepts = Callable[[ExecAssignment], str | None]
OnDone = Callable[[ExecAssignment, StepResult, int], None]


class WorkerTopology(Struct, frozen=True, kw_only=True):
    """The stream, subjects and bucket that a worker uses; the defaults are the router's."""

    stream: str = "ROUTER_ASSIGNMENTS"
    attempts: str = "ROUTER_ATTEMPTS"  # the bucket in which starts are written down
    results: str = result.RESULT_SUBJECT
    acks: str = acknowledgement.ACKNOWLEDGEMENT_SUBJECT
    letters: str = "caf.exec.dlq.v1"
    unread: str = UNREAD_SUBJECT
    heartbeats: str = heartbeat.HEARTBEAT_SUBJECTS[0]


DEFAULT_TOPOLOGY = WorkerTopology()


class Assignments:
    """Handles the assignments of one consumer, over one connection."""

    def __init__(
        self,
        connection: Connection,
        attempts: Attempts,
        *,
        worker_id: str,
        encoding: str,
        accepts: Accepts,
        on_done: OnDone,
        topology: WorkerTopology,
        start_point: StartPoint | None = None,
    ) -> None:
        self._connection = connection
        self._attempts = attempts
        self._worker_id = worker_id
        self._encoding = encoding
        self._accepts = accepts
        self._on_done = on_done
        self._topology = topology
        self._start_point = start_point
        self._lines = LogRateLimit(every_s=60.0)

    async def handle(self, message: Message) -> Outcome:
        """The consumer's handler."""
        try:
            assignment = read_exec_assignment(message.data)
        except Poison as exc:
            self._acknowledge_unread(message, str(exc))
            raise
        starts = self._start_point
        if (
            starts is not None
            and starts.is_before_start(message)
            and await starts.is_over(assignment.tenant_id, assignment.assignment_id)
        ):
            return Done()
        headers = reports.build_headers(assignment, message)
        with contain_exit:
            reason = self._accepts(assignment)
        if reason is not None:
            self._acknowledge(assignment, headers, REJECTED, reason)
            return Retry(Fault("rejected", f"not accepted by {self._worker_id}: {reason}"))
        if self._attempts.needs_thread and not await self._attempts.acquire_thread():
            return NO_THREAD
        self._acknowledge(assignment, headers, ACCEPTED)
        attempted = self._attempts.begin(assignment)
        if not isinstance(attempted, AttemptsResult):
            try:
                attempted = await attempted
            except NoThread:
                return NO_THREAD
        self._tell(assignment, attempted)
        return Done((self._report(assignment, message, headers, attempted),))

    def build_dead_letter(self, message: Message, _reason: str, fault: Fault) -> Effect:
        """Build the consumer's dead letter: it is stored when no handler answers for the
        assignment.
        """
        try:
            assignment = read_exec_assignment(message.data)
        except Poison:
            data = reports.unread_bytes(message, fault, code=UNREADABLE_CODE, now_ms=now_ms())
            return reports.dead_letter_effect(self._topology.unread, data, message, {})
        data = reports.unstarted_bytes(assignment, fault, code=NO_ATTEMPT_LEFT, now_ms=now_ms())
        return reports.dead_letter_effect(
            self._topology.letters, data, message, reports.build_headers(assignment, message)
        )

    def _tell(self, assignment: ExecAssignment, attempted: AttemptsResult) -> None:
        """Call the user's `on_done`: where it fails, the log says so, and the result is stored all
        the same.
        """
        try:
            with contain_exit:
                require_finished(
                    "on_done", self._on_done(assignment, attempted.step, attempted.latency_ms)
                )
        except Exception as exc:  # the author's code may raise anything
            if self._lines.allow(type(exc).__name__):
                log.warning(
                    events.HANDLER_FAILED,
                    function="on_done",
                    error=type(exc).__name__,
                    exc_info=exc,
                )

    def _report(
        self,
        assignment: ExecAssignment,
        message: Message,
        headers: EncodedHeaders,
        attempted: AttemptsResult,
    ) -> Effect:
        if attempted.is_hopeless:
            data = self._encode_result(
                assignment, reports.cut_to_dead_letter(attempted), reports.JSON_ENCODING
            )
            return reports.dead_letter_effect(self._topology.letters, data, message, headers)
        data = self._encode_result(assignment, attempted, self._encoding)
        return reports.result_effect(self._topology.results, data, assignment, headers)

    def _encode_result(
        self, assignment: ExecAssignment, attempted: AttemptsResult, encoding: str
    ) -> bytes:
        """Encode the result, or an error where it cannot be sent: the content of a result must not
        lose the outcome.
        """
        try:
            data = reports.result_bytes(
                assignment, attempted, worker_id=self._worker_id, now_ms=now_ms(), encoding=encoding
            )
        except Exception as exc:  # JSON refuses a value, or one of the author's own classes raises
            problem = f"the result cannot be written down: {shorten(text_of(exc))}"
        else:
            if len(data) <= self._connection.max_payload - _ROOM_FOR_HEADERS:
                return data
            problem = f"the result has {len(data)} bytes, more than the server takes"
        cut = replace(
            attempted, step=replace(build_failure(UNSENDABLE, problem), cost=attempted.step.cost)
        )
        return reports.result_bytes(
            assignment, cut, worker_id=self._worker_id, now_ms=now_ms(), encoding=encoding
        )

    def _acknowledge(
        self,
        assignment: ExecAssignment,
        headers: EncodedHeaders,
        status: str,
        says: str | None = None,
    ) -> None:
        acknowledgement = ExecAssignmentAck(
            assignment_id=assignment.assignment_id,
            status=status,
            acknowledged_at=now_ms(),
            message=says,
            request_id=assignment.request_id,
            tenant_id=assignment.tenant_id,
            trace_id=assignment.trace_id,
        )
        head = head_with_id(headers, f"ack:{assignment.assignment_id}:{status}:{self._worker_id}")
        self._connection.publish_nowait(
            self._topology.acks,
            reports.acknowledgement_bytes(acknowledgement, self._encoding),
            "",
            head,
        )

    def _acknowledge_unread(self, message: Message, says: str) -> None:
        if (assignment_id := message_id_in(message.headers)) is not None:
            acknowledgement = ExecAssignmentAck(
                assignment_id=assignment_id,
                status=ERROR,
                acknowledged_at=now_ms(),
                message=shorten(says),
            )
            self._connection.publish_nowait(
                self._topology.acks, reports.acknowledgement_bytes(acknowledgement, self._encoding)
            )
