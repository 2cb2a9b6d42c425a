"""Settling knows one order and only one: effects published, commit, reply, ack.

A stream that has no room holds back only the messages that must store something in it (`refused_storage`). If the broker
does not answer, the subscription pauses, messages in flight stay there and are kept alive, and storing is tried again until it
works; then the subscription resumes and every parked message goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from router.core.crashpoints import crashpoint, crashpoint_sent
from router.core.message import Message, Reply
from router.core.outcome import Commit, Done
from router.delivery.acked_publisher import EffectPublisher, NotPublished, PublishAcks
from router.delivery.connection import Connection
from router.delivery.in_flight import InFlight
from router.delivery.pause_switch import PauseSwitch
from router.delivery.refused_storage import RefusedStorage
from router.delivery.settlement import PendingSettlement, decide_without_storage
from router.delivery.subscription import ACK, WAITING, Subscription

PUBLISHING = "publishing"

Answer = Callable[[Message, Reply], None]


class Settler:
    """Carries out the settlements of one subscription."""

    def __init__(
        self,
        subscription: Subscription,
        *,
        connection: Connection,
        publisher: EffectPublisher,
        in_flight: InFlight,
        pause_switch: PauseSwitch,
        tasks: asyncio.TaskGroup,
        answer: Answer,
        on_finished: Callable[[PendingSettlement], None],
        on_commit_failed: Callable[[Message, Exception], None],
    ) -> None:
        self._subscription = subscription
        self._connection = connection
        self._publisher = publisher
        self._in_flight = in_flight
        self._pause_switch = pause_switch
        self._tasks = tasks
        self._answer = answer
        self._on_finished = on_finished
        self._on_commit_failed = on_commit_failed
        self._observer = subscription.observer
        self._parked: deque[PendingSettlement] = deque()
        self._retry_task: asyncio.Task[None] | None = None
        self.refused = RefusedStorage(subscription, publisher, tasks, on_stored=self._on_stored, try_again=self.settle)

    def settle_plain(self, message: Message, done: Done, token: str) -> None:
        """The fast path: a Done that stores nothing, of a message that is not in flight; the same order, no Settlement object."""
        if done.reply is not None:
            self._answer(message, done.reply)
        self._connection.publish_nowait(token, ACK)
        self._observer.on_settled(message, done, True)

    def settle(self, pending: PendingSettlement) -> None:
        if pending.settlement.effects:
            self._in_flight.add(pending.message)
            crashpoint("before_publish")
            self._publisher.publish(pending.settlement.effects, lambda result: self._on_result(pending, result))
            crashpoint_sent("after_publish")
        else:
            self._on_stored(pending, ())

    def _on_result(self, pending: PendingSettlement, result: PublishAcks | NotPublished) -> None:
        if not isinstance(result, NotPublished):
            self._on_stored(pending, result)
        elif self.refused.means(result):
            self._on_stream_full(pending, result)
        else:
            self._park(pending, result)

    def _on_stored(self, pending: PendingSettlement, publish_acks: PublishAcks) -> None:
        if publish_acks:
            self._observer.on_stored(pending.message, publish_acks)
        if pending.settlement.commit is None:
            self._finish(pending)
        else:
            self._in_flight.add(pending.message)
            self._tasks.create_task(self._commit(pending, pending.settlement.commit, publish_acks))

    async def _commit(self, pending: PendingSettlement, commit: Commit, publish_acks: PublishAcks) -> None:
        try:
            await commit(publish_acks)
        except Exception as exc:  # the handler's own store is away: the effects stand, the message comes again
            self._on_commit_failed(pending.message, exc)
        else:
            self._finish(pending)

    def _finish(self, pending: PendingSettlement) -> None:
        message, settlement = pending.message, pending.settlement
        token = self._in_flight.pop(message)
        crashpoint("after_commit")
        if settlement.reply is not None:
            self._answer(message, settlement.reply)
        if settlement.ack is not None:
            self._connection.publish_nowait(token, settlement.ack)
        crashpoint("after_ack")
        self._on_finished(pending)
        self._observer.on_settled(message, pending.outcome, settlement.is_final)

    def _on_stream_full(self, pending: PendingSettlement, refusal: NotPublished) -> None:
        self._report_refused_dead_letter(pending, refusal)
        if self.refused.take(pending, refusal):
            self._observer.on_storage_refused(pending.message, refusal.subject, WAITING)
            return
        what, instead = decide_without_storage(self._subscription, pending)
        self._observer.on_storage_refused(pending.message, refusal.subject, what)
        self._on_stored(instead, ())

    def _report_refused_dead_letter(self, pending: PendingSettlement, refusal: NotPublished) -> None:
        if any(effect.is_dead_letter for effect in pending.settlement.effects):
            self._observer.on_dead_letter_refused(pending.message, refusal.cause)

    def _park(self, pending: PendingSettlement, refusal: NotPublished) -> None:
        self._parked.append(pending)
        self._report_refused_dead_letter(pending, refusal)
        self._pause_switch.close(PUBLISHING, f"{refusal.subject} cannot be stored: {refusal.cause}")
        if self._retry_task is None:
            self._retry_task = self._tasks.create_task(self._retry_publish())

    async def _retry_publish(self) -> None:
        """Try the first one again until it is stored; then all the others at once."""
        while True:
            await asyncio.sleep(self._subscription.options.store_retry)
            result = await self._publisher.publish_and_wait(self._parked[0].settlement.effects)
            if not isinstance(result, NotPublished) or self.refused.means(result):
                break
        first, *others = self._parked
        self._parked.clear()
        self._retry_task = None
        self._pause_switch.open(PUBLISHING)
        self._on_result(first, result)
        for pending in others:
            self.settle(pending)

    def abandon(self) -> list[Message]:
        """The end: what is stuck here is for whichever instance pulls it next."""
        if self._retry_task is not None:
            self._retry_task.cancel()
            self._retry_task = None
        parked = [pending.message for pending in self._parked]
        self._parked.clear()
        return parked
