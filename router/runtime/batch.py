"""Steps 2 to 4 of the protocol for many messages at once, in the store's thread: two commits, however many there are.

    read -> dedupe -> [persist] -> apply each -> [state, messages, status] -> an outcome each

    applied    its unsent messages once more, ack      ("Duplicate detected")
    dead       its letter once more, term;  sent again by an operator (`x-replay-count`): as if new
    received   a crash or a failure was here before: one attempt more at the stored content, whatever this message says,
               or the last word when all are spent

A message that fails is undone alone: the others of its batch are committed. What SQLite refuses is no message's fault: it is
raised (StoreFailed), and nobody hears of any outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.crashpoints import crashpoint
from router.errors import Poison
from router.message import Message
from router.observability import events, logs
from router.outcome import MAXDELIVER_EXHAUSTED, PROCESSING_ERROR, Commit, Dead, Done, Fault, Outcome, Retry
from router.runtime.adapter import AgentAdapter, Context, read_messages
from router.runtime.case import Case, is_replay, read_case, rounds, row_of
from router.runtime.database import StoreFailed
from router.runtime.envelope import stored_envelope
from router.runtime.memory import Draft
from router.runtime.outbound import Outlet, effect_of, emitted
from router.runtime.receipts import Receipts
from router.runtime.rows import Emitted, Known, Resumable
from router.runtime.schema import DEAD, RECEIVED
from router.runtime.store import Store
from router.signatures import HandlerMisused

log = logs.logger(__name__)

FAILED = Fault("internal", "the agent failed")
SPENT = Fault("internal", "begun as often as allowed, and never applied: the process died on it")
GIVEN_UP = Fault("internal", "it was given up before")


class Batch:
    """An agent at work on its store. `limit`: attempts, the first included; `bury` makes the commit that follows a letter.

    `max_bytes`: of a message that it takes.
    """

    def __init__(
        self,
        adapter: AgentAdapter,
        store: Store,
        receipts: Receipts,
        *,
        limit: int,
        outlet: Outlet,
        bury: Callable[[int], Commit],
        max_bytes: int = MAX_PAYLOAD_BYTES,
    ) -> None:
        self._adapter = adapter
        self._agent = adapter.name
        self._store = store
        self._receipts = receipts
        self._limit = limit
        self._outlet = outlet
        self._bury = bury
        self._max_bytes = max_bytes
        self.duplicates = 0  # messages that were applied before; written in the store's thread alone

    def handle(self, messages: Sequence[Message]) -> list[Outcome]:
        """An outcome for each message, in their order. Raises StoreFailed, and HandlerMisused for an `apply` that returns nonsense."""
        cases = [read_case(message, self._max_bytes) for message in messages]
        crashpoint("agent_received")
        for unique in rounds([case for case in cases if isinstance(case, Case)]):
            self._work(unique)
        return [case if isinstance(case, Dead) else case.outcome or Retry(FAILED) for case in cases]

    def resume(self, row: Resumable) -> bool:
        """One more attempt at what was received before; whether it is applied now. It must be the store's only work."""
        case = Case(None, stored_envelope(row.content), row.place, row.attempts + 1)
        with self._store.transaction():
            self._store.begin_again([row.place])
        self._apply([case])
        return isinstance(case.outcome, Done)

    def _work(self, cases: Sequence[Case]) -> None:
        """Cases of different keys."""
        known = self._store.find([case.envelope.idempotency_key for case in cases])
        crashpoint("agent_deduplicated")
        begun = self._persist(cases, known)
        crashpoint("agent_persisted")
        if begun:
            self._apply(begun)
        self._settle_applied([case for case in cases if case.outcome is None])

    # -- dedupe and persist --------------------------------------------------------------------------------------

    def _persist(self, cases: Sequence[Case], known: dict[str, Known]) -> list[Case]:
        new, again, revived = [], [], []
        for case in cases:
            row = known.get(case.envelope.idempotency_key)
            if row is None:
                case.place = self._store.next_place()
                new.append(case)
            else:
                case.place, case.attempt = row.place, row.attempts + 1
                if row.status == RECEIVED and row.attempts < self._limit:
                    again.append(case)
                elif row.status == RECEIVED:
                    case.outcome = Dead(SPENT, MAXDELIVER_EXHAUSTED, commit=self._bury(row.place))
                elif row.status == DEAD and is_replay(case.message):
                    case.attempt = 1
                    revived.append(case)
                elif row.status == DEAD:
                    case.outcome = Dead(GIVEN_UP, PROCESSING_ERROR)
        marks = self._receipts.take()
        if new or again or revived or marks:
            with self._store.transaction():
                self._store.receive([row_of(case) for case in new])
                self._store.begin_again([case.place for case in again])
                self._store.revive([row_of(case) for case in revived])
                self._store.mark(marks)
        self._take_stored_content(again)
        return [*new, *again, *revived]

    def _take_stored_content(self, cases: Sequence[Case]) -> None:
        """Another message may bear the key: applied is what the store holds, or a replay of the store would differ."""
        if not cases:
            return
        contents = self._store.contents_of([case.place for case in cases])
        for case in cases:
            case.envelope = stored_envelope(contents[case.place])

    def _settle_applied(self, cases: Sequence[Case]) -> None:
        """Found as applied: what it sent may not stand in its stream yet."""
        if not cases:
            return
        unsent = self._store.unsent_of([case.place for case in cases])
        self.duplicates += len(cases)
        for case in cases:
            log.info(events.DUPLICATE_DETECTED, idempotency_key=case.envelope.idempotency_key, agent=self._agent)
            self._done(case, [one for one in unsent if one.place == case.place])

    # -- apply ---------------------------------------------------------------------------------------------------

    def _apply(self, cases: Sequence[Case]) -> None:
        try:
            with self._store.transaction():
                draft = Draft(self._store.remembered)
                applied = [case for case in cases if self._apply_one(case, draft)]
                self._store.apply([case.place for case in applied], [one for case in applied for one in case.emitted], draft.rows)
                crashpoint("agent_applying")
        except HandlerMisused:
            self._take_back(cases)
            raise
        self._store.committed(draft.rows)
        crashpoint("agent_applied")
        for case in applied:
            self._done(case, case.emitted)

    def _take_back(self, cases: Sequence[Case]) -> None:
        """The agent ends, and this attempt is none: what was begun is applied once `apply` is mended."""
        with self._store.transaction():
            self._store.take_back([case.place for case in cases])

    def _apply_one(self, case: Case, draft: Draft) -> bool:
        try:
            self._adapter.receive(case.envelope)
            answer = self._adapter.apply(Context(self._agent, case.envelope.idempotency_key, draft, case.attempt), case.envelope)
            case.emitted = [
                emitted(self._agent, case.envelope, one, place=case.place, number=number, outlet=self._outlet)
                for number, one in enumerate(read_messages(answer))
            ]
        except (StoreFailed, HandlerMisused):
            raise
        except Poison as exc:
            draft.drop()
            case.outcome = Dead(Fault(exc.code, str(exc)), PROCESSING_ERROR, commit=self._bury(case.place))
            return False
        except Exception as exc:  # whatever an author's code raises
            draft.drop()
            case.outcome = self._failed(case, exc)
            return False
        draft.keep()
        return True

    def _failed(self, case: Case, exc: Exception) -> Outcome:
        """Tried again while there are attempts, and deliveries by the server, left (docs/requirements.md#mf-8)."""
        log.warning(events.HANDLER_FAILED, agent=self._agent, attempt=case.attempt, error=type(exc).__name__, exc_info=exc)
        deliveries = case.message.deliveries if case.message is not None else 0
        if max(case.attempt, deliveries) < self._limit:
            return Retry(FAILED)
        return Dead(FAILED, MAXDELIVER_EXHAUSTED, commit=self._bury(case.place))

    def _done(self, case: Case, messages: Sequence[Emitted]) -> None:
        self._receipts.expect(messages)
        case.outcome = Done(tuple([effect_of(one) for one in messages]))
