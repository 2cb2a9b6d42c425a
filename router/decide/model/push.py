"""Push a decision as an assignment: the stored assignment counts, whichever instance stored it
(docs/reference/contracts.md#stored-assignment).

    create in the bucket   ours       -> publish it, answer with our decision
                           an earlier -> publish that again (a crash may lie between), answer with
                           the decision inside
    no decision now        an earlier -> the same: the policy may have changed, the worker has its
                           work
                           none       -> the refusal

Switched off, or not for this tenant: the request is decided without an assignment, as the
specification's acceptance has it, and the answer carries a warning, so that it does not look like
work under way. More than this tenant's share of the stream: refused before anything is decided, for
the same request may be sent again later. It is a routing answer, so no dead letter.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from msgspec import Struct

from router.budgets.model import Charge
from router.budgets.model.reservation import reservation_text
from router.contracts.assignment import Assignment, assignment_id_of, build_assignment
from router.contracts.assignment_record import (
    AssignmentRecord,
    build_record,
    content_of,
    read_record,
)
from router.contracts.decision import (
    INVALID_REQUEST,
    OVERLOADED,
    Decision,
    Refusal,
    RouteRequest,
    SkippedAssignment,
)
from router.contracts.headers import traceparent_in
from router.contracts.stored_record import record_bytes
from router.core.deferred import Deferred
from router.core.errors import Poison, StorageFull
from router.core.lease_short import LeaseShort
from router.core.message import Effect, Message
from router.core.single_flight import SingleFlight
from router.decide.settings import AssignmentConfig
from router.extensions.model import PipelineResult

# -- The assignment of a decision: its record for the bucket, and what is published of a record
# (docs/reference/contracts.md#assignments).
#
# Both are pure. The assignment is built from the record alone, so it is the same when another
# process publishes it again.


class NewAssignment(Struct, frozen=True):
    """The assignment of a decision just made: `data` is its record for the bucket, `known` what its
    results are compared with.
    """

    record: AssignmentRecord
    data: bytes
    known: Assignment


def assignment_id(request: RouteRequest) -> str:
    """The UUID of a request's assignment, and the bucket's key for its record."""
    return assignment_id_of(request.tenant_id, request.request_key)


def build_new_assignment(  # noqa: PLR0917 - once a message
    of: str,
    request: RouteRequest,
    message: Message,
    decision: Decision,
    default_subject: str,
    reservation: str | None = None,
) -> NewAssignment:
    """The assignment with the id `of`; the reader has checked the request's own subject against the
    allow list.
    """
    # the server's clock: the same for each delivery of the request
    requested_at_ms = message.stored_ms
    record = build_record(
        of,
        request,
        decision,
        subject=request.assignment_subject or default_subject,
        traceparent=traceparent_in(message.headers),
        content=content_of(request, message.data),
        requested_at_ms=requested_at_ms,
        reservation=reservation,
    )
    assignment = build_assignment(
        of, request, decision, reservation, requested_at_ms=requested_at_ms
    )
    return NewAssignment(record, record_bytes(record), assignment)


def build_effect(record: AssignmentRecord, of: str, tenant: str) -> Effect:
    """The stored assignment as the effect that workers receive; `of`, its id, is its Nats-Msg-Id."""
    return Effect(record.subject, bytes(record.assignment), of, record.headers, owner=tenant)


def is_same_request(record: AssignmentRecord, request: RouteRequest, message: Message) -> bool:
    """Whether the record was made from this content; not asked where an `idempotency_key` stands
    for it, on either side.
    """
    content = content_of(request, message.data)
    return content is None or record.content is None or content == record.content


# -- Push a decision as an assignment: the stored assignment counts, whichever instance stored it.


REQUEST_ID_TAKEN = Refusal(
    INVALID_REQUEST, "This request id was used for a different request", {"field": "request_id"}
)
SWITCHED_OFF = SkippedAssignment(
    "assignment_disabled", "This router pushes no assignments: the decision was made without one"
)
PUSH_TENANT_FORBIDDEN = SkippedAssignment(
    "assignment_tenant_forbidden",
    "This tenant may not push assignments: the decision was made without one",
)

STREAM_FULL = Refusal(
    OVERLOADED,
    "There is no room for more assignments now; send it again",
    {"cause": StorageFull.code, "retry_after_ms": 10_000},
)
OVER_SHARE = Refusal(
    OVERLOADED,
    "This tenant's assignments take more than its share of their stream; send it again",
    {"cause": "tenant_share", "retry_after_ms": 10_000},
)

T = TypeVar("T")

RunPipeline = Callable[[], Refusal | Awaitable[PipelineResult]]
# the answer; or what asks the extensions for it
Decide = Callable[[], Decision | Refusal | RunPipeline]


class AssignmentBucket(Protocol):
    """The bucket of known assignments; a key is an assignment's id, because a UUID needs no
    escapes.

    While it cannot be asked both raise BrokerUnavailable, and the subscription waits. Poison: what
    it can never take.
    """

    async def find(self, key: str) -> bytes | None: ...

    def create(self, key: str, new: NewAssignment) -> Deferred[bytes]:
        """What stands under the key once it is there: the new record, or the one that was there
        before. StorageFull: it is full.
        """


class AssignmentShares(Protocol):
    """What each tenant holds of the stream of assignments."""

    def is_over(self, tenant: str) -> bool: ...

    def add(self, tenant: str, size: int) -> None: ...


class BudgetCharges(Protocol):
    """What decisions have reserved in budgets, until their assignments hold it."""

    def take_charge(self, request: RouteRequest) -> Charge | None: ...


class PushedAssignment(Struct, frozen=True):
    """A decision with its assignment. `is_repeat`: the request was decided before. `content`: the
    digest of what was asked.
    """

    decision: Decision
    effect: Effect
    is_repeat: bool
    content: str | None = None


Pushed = PushedAssignment | Refusal


class AssignmentPusher:
    """Decides, and stores the assignment. Concurrent duplicates of one request wait for the first
    of them.
    """

    def __init__(
        self,
        bucket: AssignmentBucket,
        settings: AssignmentConfig,
        shares: AssignmentShares,
        charges: BudgetCharges,
    ) -> None:
        self._charges = charges
        self._bucket = bucket
        self._is_enabled = settings.enabled
        self._tenants_allowed = frozenset(settings.tenants_allowed)  # empty = all
        self._subject = settings.subjects[0]  # for requests that name none
        self._shares = shares
        self._in_progress: SingleFlight[bytes] = SingleFlight()

    def find_skip_reason(self, tenant_id: str) -> SkippedAssignment | None:
        """Why this tenant's requests are decided without an assignment; None: they are pushed."""
        if not self._is_enabled:
            return SWITCHED_OFF
        if self._tenants_allowed and tenant_id not in self._tenants_allowed:
            return PUSH_TENANT_FORBIDDEN
        return None

    def find_refusal(self, request: RouteRequest) -> Refusal | None:
        """Why this request may not be pushed now; None: it may."""
        return OVER_SHARE if self._shares.is_over(request.tenant_id) else None

    def push(
        self,
        request: RouteRequest,
        message: Message,
        decide: Decide,
        conclude: Callable[[Pushed], T],
    ) -> Deferred[T] | Awaitable[T]:
        """Decide and store, then `conclude`. A Deferred, which costs no task, where no extension is
        asked and no duplicate is under way.
        """
        of = assignment_id(request)
        if not self._in_progress.try_acquire(of):
            return self._push_in_turn(of, request, message, decide, conclude)
        decided: Decision | Refusal | RunPipeline | None = None
        try:
            decided = decide()
            if isinstance(decided, Decision):
                return self._create(of, decided, request, request, message, conclude)
        except LeaseShort:
            pass  # `_push_in_turn` waits for a larger one
        except BaseException:
            self._in_progress.release(of)
            raise
        self._in_progress.release(of)
        # made once: another would take another token of a rate limit, and count again
        if isinstance(decided, Refusal):
            return self._push_in_turn(of, request, message, lambda: decided, conclude)
        return self._push_in_turn(of, request, message, decide, conclude)

    async def push_again(
        self,
        request: RouteRequest,
        message: Message,
        decide: Decide,
        conclude: Callable[[Pushed], T],
    ) -> T:
        """For a request that was decided before: what stands in the bucket; where it is gone,
        decide and store.
        """
        if (stored := await self._bucket.find(assignment_id(request))) is not None:
            return conclude(_read_pushed(stored, request, message))
        return await self.push(request, message, decide, conclude)

    async def _push_in_turn(
        self,
        of: str,
        request: RouteRequest,
        message: Message,
        decide: Decide,
        conclude: Callable[[Pushed], T],
    ) -> T:
        """After a duplicate that is under way, which decides for both; with the extensions'
        answers; a refusal, unless it was decided.
        """
        if (stored := await self._in_progress.acquire(of)) is not None:
            return conclude(_read_pushed(stored, request, message))
        try:
            decided, as_assigned = await _decide(decide, request)
            if isinstance(decided, Decision):
                creating = self._create(of, decided, as_assigned, request, message, conclude)
            else:
                if (charge := self._charges.take_charge(request)) is not None:
                    charge.release()
                stored = await self._bucket.find(of)
        except BaseException:
            self._in_progress.release(of)
            raise
        if isinstance(decided, Decision):
            return await creating
        self._in_progress.release(of, stored)
        return conclude(decided if stored is None else _read_pushed(stored, request, message))

    def _create(  # noqa: PLR0917 - once a message
        self,
        of: str,
        decision: Decision,
        as_assigned: RouteRequest,
        request: RouteRequest,
        message: Message,
        conclude: Callable[[Pushed], T],
    ) -> Deferred[T]:
        """Store the record. The id is released when the bucket has answered, whatever has become of
        the message meanwhile.
        """
        charge = self._charges.take_charge(request)
        reservation = reservation_text(charge.reservation) if charge is not None else None
        new = build_new_assignment(of, as_assigned, message, decision, self._subject, reservation)
        concluded: Deferred[T] = Deferred()

        def on_created(result: bytes | BaseException) -> None:
            self._in_progress.release(of, result if isinstance(result, bytes) else None)
            if charge is not None and (
                isinstance(result, StorageFull)
                or (isinstance(result, bytes) and result != new.data)
            ):
                # another decision counts, or none; what may be stored after all keeps its
                # reservation
                charge.release()
            pushed = self._read_created(new, request, message, result)
            if isinstance(pushed, BaseException):
                concluded.resolve(pushed)
            else:
                concluded.resolve_with(conclude, pushed)

        self._bucket.create(of, new).add_callback(on_created)
        return concluded

    def _read_created(
        self,
        new: NewAssignment,
        request: RouteRequest,
        message: Message,
        result: bytes | BaseException,
    ) -> Pushed | BaseException:
        if isinstance(result, StorageFull):
            return STREAM_FULL
        if isinstance(result, BaseException):
            return result
        self._shares.add(request.tenant_id, len(result))
        if result == new.data:
            effect = build_effect(new.record, new.known.assignment_id, request.tenant_id)
            return PushedAssignment(new.known.decision, effect, False, new.record.content)
        try:
            return _read_pushed(result, request, message)
        except Poison as exc:
            return exc


async def _decide(decide: Decide, request: RouteRequest) -> tuple[Decision | Refusal, RouteRequest]:
    """The decision, and the request for the worker: as the pre-processors left it."""
    while True:
        try:
            return await _decide_once(decide, request)
        except LeaseShort as short:
            await short.wait()


async def _decide_once(
    decide: Decide, request: RouteRequest
) -> tuple[Decision | Refusal, RouteRequest]:
    decided = decide()
    if isinstance(decided, Decision | Refusal):
        return decided, request
    running = decided()
    if isinstance(running, Refusal):
        return running, request
    piped = await running
    return piped.answer, piped.request


def _read_pushed(stored: bytes, request: RouteRequest, message: Message) -> Pushed:
    """The assignment in a record that an earlier one of these requests stored."""
    record = read_record(stored)
    if not is_same_request(record, request, message):
        return REQUEST_ID_TAKEN
    effect = build_effect(record, assignment_id(request), request.tenant_id)
    return PushedAssignment(record.read_assignment().decision, effect, True, record.content)
