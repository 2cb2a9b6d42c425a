"""Settling knows one order and only one: effects stored, commit, reply, stamp.

A stream that has no room holds back only the messages that must store something in it (`refused_storage`). If the broker
does not answer, the lane's gate closes, what is held stays held and is kept alive, and storing is tried again until it
works; then the gate opens and everything that was stuck goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from router.crashpoints import crashpoint, crashpoint_sent
from router.delivery.acked_publisher import EffectPublisher, NotPublished, Receipts
from router.delivery.connection import Connection
from router.delivery.in_flight import InFlight
from router.delivery.pause_switch import PauseSwitch
from router.delivery.refused_storage import RefusedStorage
from router.delivery.settlement import PendingSettlement, beyond_storage
from router.delivery.subscription import ACK, WAITING, Subscription
from router.message import Message, Reply
from router.outcome import Commit, Done

EVIDENCE = "evidence"

Answer = Callable[[Message, Reply], None]


class Settler:
    """From verdicts to stamps for one lane."""

    def __init__(
        self,
        lane: Subscription,
        *,
        connection: Connection,
        evidence: EffectPublisher,
        in_flight: InFlight,
        gate: PauseSwitch,
        tasks: asyncio.TaskGroup,
        answer: Answer,
        finished: Callable[[PendingSettlement], None],
        commit_failed: Callable[[Message, Exception], None],
    ) -> None:
        self._lane = lane
        self._connection = connection
        self._evidence = evidence
        self._in_flight = in_flight
        self._gate = gate
        self._tasks = tasks
        self._answer = answer
        self._finished = finished
        self._commit_failed = commit_failed
        self._observer = lane.observer
        self._stuck: deque[PendingSettlement] = deque()
        self._mender: asyncio.Task[None] | None = None
        self.refused = RefusedStorage(lane, evidence, tasks, on_stored=self._stored, try_again=self.settle)

    def settle_plain(self, message: Message, done: Done, token: str) -> None:
        """The fast path: a Done that stores nothing, of a message that is in nobody's hands; the same order, no verdict object."""
        if done.reply is not None:
            self._answer(message, done.reply)
        self._connection.publish_nowait(token, ACK)
        self._observer.settled(message, done, True)

    def settle(self, case: PendingSettlement) -> None:
        if case.verdict.effects:
            self._in_flight.add(case.message)
            crashpoint("before_store")
            self._evidence.store(case.verdict.effects, lambda result: self._told(case, result))
            crashpoint_sent("after_store")
        else:
            self._stored(case, ())

    def _told(self, case: PendingSettlement, result: Receipts | NotPublished) -> None:
        if not isinstance(result, NotPublished):
            self._stored(case, result)
        elif self.refused.means(result):
            self._find_no_room(case, result)
        else:
            self._stick(case, result)

    def _stored(self, case: PendingSettlement, receipts: Receipts) -> None:
        if receipts:
            self._observer.stored(case.message, receipts)
        if case.verdict.commit is None:
            self._finish(case)
        else:
            self._in_flight.add(case.message)
            self._tasks.create_task(self._commit(case, case.verdict.commit, receipts))

    async def _commit(self, case: PendingSettlement, commit: Commit, receipts: Receipts) -> None:
        try:
            await commit(receipts)
        except Exception as exc:  # the handler's own store is away: the effects stand, the message comes again
            self._commit_failed(case.message, exc)
        else:
            self._finish(case)

    def _finish(self, case: PendingSettlement) -> None:
        message, verdict = case.message, case.verdict
        token = self._in_flight.pop(message)
        crashpoint("after_receipt")
        if verdict.reply is not None:
            self._answer(message, verdict.reply)
        if verdict.stamp is not None:
            self._connection.publish_nowait(token, verdict.stamp)
        crashpoint("after_stamp")
        self._finished(case)
        self._observer.settled(message, case.outcome, verdict.is_final)

    def _find_no_room(self, case: PendingSettlement, refusal: NotPublished) -> None:
        self._tell_refused_letter(case, refusal)
        if self.refused.take(case, refusal):
            self._observer.storage_refused(case.message, refusal.subject, WAITING)
            return
        what, instead = beyond_storage(self._lane, case)
        self._observer.storage_refused(case.message, refusal.subject, what)
        self._stored(instead, ())

    def _tell_refused_letter(self, case: PendingSettlement, refusal: NotPublished) -> None:
        if any(effect.is_dead_letter for effect in case.verdict.effects):
            self._observer.letter_refused(case.message, refusal.cause)

    def _stick(self, case: PendingSettlement, refusal: NotPublished) -> None:
        self._stuck.append(case)
        self._tell_refused_letter(case, refusal)
        self._gate.close(EVIDENCE, f"{refusal.subject} cannot be stored: {refusal.cause}")
        if self._mender is None:
            self._mender = self._tasks.create_task(self._mend())

    async def _mend(self) -> None:
        """Try the first one again until it is stored; then all the others at once."""
        while True:
            await asyncio.sleep(self._lane.pace.store_retry)
            result = await self._evidence.stored(self._stuck[0].verdict.effects)
            if not isinstance(result, NotPublished) or self.refused.means(result):
                break
        first, *others = self._stuck
        self._stuck.clear()
        self._mender = None
        self._gate.open(EVIDENCE)
        self._told(first, result)
        for case in others:
            self.settle(case)

    def abandon(self) -> list[Message]:
        """The end: what is stuck here is for whichever instance pulls it next."""
        if self._mender is not None:
            self._mender.cancel()
            self._mender = None
        stuck = [case.message for case in self._stuck]
        self._stuck.clear()
        return stuck
