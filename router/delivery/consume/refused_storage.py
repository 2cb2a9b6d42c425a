"""Messages whose effects a stream refuses: they stay in flight, and the rest of the subscription
goes on.

    refused ──> take: there is room among those that wait, and in its tenant's share ──> it waits, kept alive
                                                                 └─ every `store_retry` the first of each subject is tried again
                                                                      ├─ stored: so are the others of that subject
                                                                      └─ refused until an operator mends the stream (`publish_faults`):
                                                                         those with a requester give
                                                                         up after `patience`
            └─> no room: `settlement.decide_without_place` says what becomes of it

A broker that says nothing is another matter: then nothing can be stored, and the whole subscription
pauses (`settle`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection

from msgspec import Struct

from router.core.clock import steady
from router.delivery.consume.settlement import PendingSettlement
from router.delivery.consume.subscription import Subscription
from router.delivery.publish.acked_publisher import EffectPublisher, NotPublished, PublishAcks
from router.delivery.wire.publish_faults import PublishFault, find_fault

TENANT_SHARE_DIVISOR = 4  # one tenant may take this part of the places

# NotPublished: it is never stored; None: its effects are to be published again.
GoesOn = tuple[PendingSettlement, PublishAcks | NotPublished | None]


class Waiting(Struct, frozen=True):
    """One message that waits; `since`: steady seconds."""

    tenant: str
    pending: PendingSettlement
    since: float


class RefusedStorage:
    """Of one subscription. At most `options.max_waiting` messages wait, at most a quarter of them
    one tenant's; 0 = none may.

    Where the subscription pauses above that, a tenant has no share: one that went above it would
    stop the others.
    """

    def __init__(self, subscription: Subscription, publisher: EffectPublisher) -> None:
        self._subscription = subscription
        self._publisher = publisher
        self._most = subscription.options.max_waiting
        self._share = (
            self._most
            if subscription.options.pauses_above
            else max(1, self._most // TENANT_SHARE_DIVISOR)
        )
        # by the subject that was refused, in the order in which they are tried
        self._waiting: dict[str, deque[Waiting]] = {}
        self._tenants: Counter[str] = Counter()
        self._now = steady
        self.cause: str | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        """Whether no further message may wait."""
        return len(self) >= self._most

    def means(self, refusal: NotPublished) -> bool:
        """Whether it is the stream that refuses; else the broker is in trouble, and the
        subscription is to pause.
        """
        return self._most > 0 and find_fault(refusal.err_code) in (
            PublishFault.FULL,
            PublishFault.STREAM,
        )

    def is_told(self, pending: PendingSettlement, refusal: NotPublished) -> bool:
        """Whether a requester hears of the refusal in the end: only an operator ends it, so it is
        of no use to ask again.

        A dead letter waits as for a full stream: it is all that is left of its message.
        """
        if (
            self._subscription.overloaded is None
            or find_fault(refusal.err_code) is not PublishFault.STREAM
        ):
            return False
        return not any(effect.is_dead_letter for effect in pending.settlement.effects)

    def take(self, pending: PendingSettlement, refusal: NotPublished) -> bool:
        """Let it wait, until `retry` returns it; it must be in flight. False: too many wait, or too
        many of its tenant.
        """
        if not self.has_room(pending):
            return False
        tenant = self._subscription.tenant_of(pending.message)
        self._tenants[tenant] += 1
        self._waiting.setdefault(refusal.subject, deque()).append(
            Waiting(tenant, pending, self._now())
        )
        self._tell(f"{refusal.subject} cannot be stored: {refusal.cause}")
        return True

    def has_room(self, pending: PendingSettlement) -> bool:
        return (
            not self.is_full
            and self._tenants[self._subscription.tenant_of(pending.message)] < self._share
        )

    async def retry(self) -> AsyncIterator[GoesOn]:
        """Publish again at intervals, until none waits; yields the messages that go on."""
        while self._waiting:
            await asyncio.sleep(self._subscription.options.store_retry)
            for subject, waiting in list(self._waiting.items()):
                for pending in await self._retry_subject(subject, waiting):
                    yield pending
        self._tell(None)

    def abandon(self) -> None:
        """The end: what waits here is for whichever instance pulls it next."""
        self._waiting.clear()
        self._tenants.clear()

    async def _retry_subject(self, subject: str, waiting: deque[Waiting]) -> list[GoesOn]:
        """Another message each time: a large one that does not fit must not hold back the small
        ones.
        """
        result = await self._publisher.publish_and_wait(waiting[0].pending.settlement.effects)
        if self._waiting.get(subject) is not waiting:
            return []  # they were abandoned meanwhile
        if isinstance(result, NotPublished):
            return [(waiter.pending, result) for waiter in self._give_up(subject, waiting, result)]
        self._remove(subject, waiting)
        first, *others = waiting
        return [(first.pending, result), *((waiter.pending, None) for waiter in others)]

    def _give_up(
        self, subject: str, waiting: deque[Waiting], refusal: NotPublished
    ) -> list[Waiting]:
        """Remove those that are never stored, and let another one be the next that is tried."""
        given_up = self._find_given_up(waiting, refusal)
        self._remove(subject, given_up)
        if left := deque(waiter for waiter in waiting if waiter not in given_up):
            left.rotate(0 if given_up else -1)
            self._waiting[subject] = left
        return given_up

    def _find_given_up(self, waiting: deque[Waiting], refusal: NotPublished) -> list[Waiting]:
        if find_fault(refusal.err_code) is PublishFault.MESSAGE:
            return [waiting[0]]
        before = self._now() - self._subscription.options.patience
        return [
            waiter
            for waiter in waiting
            if waiter.since <= before and self.is_told(waiter.pending, refusal)
        ]

    def _remove(self, subject: str, gone: Collection[Waiting]) -> None:
        del self._waiting[subject]
        self._tenants -= Counter(waiter.tenant for waiter in gone)  # what falls to nothing goes

    def _tell(self, cause: str | None) -> None:
        if (self.cause is None) != (cause is None):
            self._subscription.observer.on_storage(cause)
        self.cause = cause
