"""A subscription on a durable in memory, on virtual time: the same decide_settlement and the same
order of settling as a Consumer.

For unit tests of handlers. It delivers one message after the other, so it says nothing about
concurrency, prefetch or the network; tests/conformance holds it to what a real Consumer on a real
server does.

    publish .. run:  what is due -> its attempt is recorded -> handler -> decide_settlement ->
                     stored, committed, replied, acked
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import BrokerUnavailable
from router.core.message import NO_HEADERS, Effect, Message
from router.core.outcome import Dead, Outcome, PublishAck, Retry
from router.delivery.consume.processor import REFUSED_SUBJECT
from router.delivery.consume.redeliveries import ATTEMPTS_EXHAUSTED
from router.delivery.consume.settlement import (
    PendingSettlement,
    decide_settlement,
    follow,
    give_up,
    outcome_of,
)
from router.delivery.consume.subscription import Subscription
from tests.support.in_memory_durable import InMemoryDurable


class InMemoryStep(Struct, frozen=True):
    """One thing that happened, and its value: a message's data, an effect's id, a reply, an ack."""

    kind: str  # started | stored | replied | acked
    sequence: int
    value: bytes
    at: float  # virtual seconds


class InMemoryConsumer:
    """A subscription without a broker. `dies_on`: which messages kill the process that begins them."""

    def __init__(
        self, subscription: Subscription, *, dies_on: Callable[[Message], bool] = lambda _: False
    ) -> None:
        self.subscription = subscription
        self._durable = InMemoryDurable(subscription.stream, subscription.durable)
        self.steps: list[InMemoryStep] = []
        self.effects: list[Effect] = []  # each id once
        self.refuses: str | None = None  # why nothing can be stored, as long as it cannot
        self._dies_on = dies_on
        self._sent_back: set[int] = set()  # by the process that lives; lost when it dies
        self._counted: dict[int, int] = {}  # attempts, by sequence: what stands in the bucket
        # whose first attempt is: nothing was counted when they came again
        self._assumed: set[int] = set()
        self._parked: PendingSettlement | None = None
        self._stalled: Message | None = None  # its handler found the broker away
        self._away: str | None = None

    @property
    def paused_for(self) -> str | None:
        return self.refuses if self._parked is not None else self._away

    def publish(
        self, subject: str, data: bytes = b"", headers: Mapping[str, str] = NO_HEADERS
    ) -> int:
        """Store a message on the subscription's stream; returns its sequence."""
        return self._durable.publish(subject, data, headers)

    async def run(self) -> None:
        """Deliver until nothing is left to do, or until the subscription pauses; a later run then
        goes on where this one was.
        """
        if self._parked is not None:
            await self._settle(self._parked)
        elif self._stalled is not None:
            await self._begin(self._stalled)
        while self.paused_for is None and (message := self._durable.deliver()) is not None:
            await self._deliver(message)

    def list_stored(self, subject: str) -> list[Effect]:
        return [effect for effect in self.effects if effect.subject == subject]

    def acks(self, sequence: int) -> list[bytes]:
        return [
            step.value for step in self.steps if step.kind == "acked" and step.sequence == sequence
        ]

    async def _deliver(self, message: Message) -> None:
        attempts, may_begin = self._count_begin(message)
        message = replace(message, attempts=attempts)
        if not may_begin:
            await self._settle(
                PendingSettlement(
                    message,
                    Dead(ATTEMPTS_EXHAUSTED),
                    give_up(self.subscription, message, ATTEMPTS_EXHAUSTED),
                )
            )
            return
        if self._dies_on(message):
            self._note("started", message, message.data)
            self._sent_back.clear()
            self._durable.deliver_again(message, self.subscription.options.ack_wait)
        else:
            await self._begin(message)

    async def _begin(self, message: Message) -> None:
        """One start, however often it is begun: while the broker is away for its handler, the
        message is held.
        """
        self._note("started", message, message.data)
        try:
            outcome = await self._outcome_of(message)
        except BrokerUnavailable as exc:
            self._stall(message, str(exc))
            return
        self._stall(None, None)
        await self._settle(
            PendingSettlement(
                message, outcome, decide_settlement(self.subscription, message, outcome)
            )
        )

    def _stall(self, message: Message | None, cause: str | None) -> None:
        has_changed = (self._stalled is None) != (message is None)
        self._stalled, self._away = message, cause
        if has_changed:
            self.subscription.observer.on_flow(cause)

    def _count_begin(self, message: Message) -> tuple[int, bool]:
        """Which attempt this one is, and whether it may begin: counted as `Starts` does."""
        if message.deliveries == 1:
            return 1, True
        if message.sequence not in self._sent_back:
            self.subscription.observer.on_unexpected_redelivery(message)
        self._sent_back.discard(message.sequence)
        if message.sequence not in self._counted:
            self._assumed.add(message.sequence)
        most = self.subscription.options.max_attempts
        attempts = self._counted.get(message.sequence, 1)
        if attempts >= (max(2, most) if message.sequence in self._assumed else most):
            return attempts, False
        self._counted[message.sequence] = attempts + 1
        return attempts + 1, True

    async def _outcome_of(self, message: Message) -> Outcome:
        if self.subscription.is_allowed is not None and not self.subscription.is_allowed(
            message.subject
        ):
            return Retry(REFUSED_SUBJECT)
        try:
            outcome = self.subscription.handle(message)
            return await outcome if isinstance(outcome, Awaitable) else outcome
        except BrokerUnavailable:
            raise
        except Exception as exc:  # whatever else a handler raises is an outcome too
            return outcome_of(exc)

    async def _settle(self, pending: PendingSettlement) -> None:
        """Effects stored, commit, reply, ack; no further than to the first when nothing can be
        stored.
        """
        message, settlement = pending.message, pending.settlement
        if settlement.effects and not self._can_store(pending):
            return
        publish_acks = [self._store(message, effect) for effect in settlement.effects]
        if publish_acks:
            self.subscription.observer.on_stored(message, publish_acks)
        if settlement.commit is not None:
            try:
                await settlement.commit(publish_acks)
            except Exception as exc:
                # the handler's own store is away: the effects stand, the message comes again
                outcome = outcome_of(exc)
                await self._settle(
                    PendingSettlement(
                        message, outcome, decide_settlement(self.subscription, message, outcome)
                    )
                )
                return
        if settlement.then is not None:
            following = settlement.then(publish_acks)
            done = await following if isinstance(following, Awaitable) else following
            if done is not None:
                await self._settle(follow(pending, done))
                return
        if settlement.reply is not None:
            self._note("replied", message, settlement.reply.data)
        if settlement.ack is not None:
            self._note("acked", message, settlement.ack)
        if not settlement.is_final:
            self._send_away(pending)
        self.subscription.observer.on_settled(message, pending.outcome, settlement.is_final)

    def _can_store(self, pending: PendingSettlement) -> bool:
        was_open, self._parked = self._parked is None, pending if self.refuses is not None else None
        if was_open != (self._parked is None):
            self.subscription.observer.on_flow(self.refuses)
        return self._parked is None

    def _store(self, message: Message, effect: Effect) -> PublishAck:
        place = next(
            (place for place, stored in enumerate(self.effects, 1) if stored.id == effect.id), None
        )
        if place is None:
            self.effects.append(effect)
        self._note("stored", message, effect.id.encode())
        return PublishAck(effect.id, effect.subject, place or len(self.effects), place is not None)

    def _send_away(self, pending: PendingSettlement) -> None:
        """What the server makes of a NAK with a delay, or of no ack at all."""
        message, outcome, ack = pending.message, pending.outcome, pending.settlement.ack
        if isinstance(outcome, Retry):
            self._sent_back.add(message.sequence)
            self._counted[message.sequence] = (
                message.attempts if outcome.uses_attempt else message.attempts - 1
            )
        delay_s = (
            orjson.loads(ack.removeprefix(b"-NAK "))["delay"] / 1e9
            if ack is not None
            else self.subscription.options.ack_wait
        )
        self._durable.deliver_again(message, delay_s)

    def _note(self, kind: str, message: Message, value: bytes) -> None:
        self.steps.append(InMemoryStep(kind, message.sequence, value, self._durable.now))
