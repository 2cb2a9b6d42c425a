"""Messages whose effects a stream refuses because it has no room: they stay in flight, and the rest of the subscription goes on.

    refused ──> take: there is room among those that wait, and in its tenant's share ──> it waits, kept alive
                                                                 └─ every `store_retry` the first of each subject is tried again
                                                                      └─ stored: so are the others of that subject
            └─> no room: `settlement.decide_without_storage` says what becomes of it

A broker that says nothing is another matter: then nothing can be stored, and the whole subscription pauses (`settle`).
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator

from router.delivery.acked_publisher import EffectPublisher, NotPublished, PublishAcks
from router.delivery.api import STORAGE_FULL_CODES
from router.delivery.settlement import PendingSettlement
from router.delivery.subscription import Subscription

TENANT_SHARE_DIVISOR = 4  # one tenant may take this part of the places

Waiting = tuple[str, PendingSettlement]  # whose it is
GoesOn = tuple[PendingSettlement, PublishAcks | None]  # None: its effects are to be published again


class RefusedStorage:
    """Of one subscription. At most `options.max_waiting` messages wait, at most a quarter of them one tenant's; 0 = none may."""

    def __init__(self, subscription: Subscription, publisher: EffectPublisher) -> None:
        self._subscription = subscription
        self._publisher = publisher
        self._most = subscription.options.max_waiting
        self._share = max(1, self._most // TENANT_SHARE_DIVISOR)
        self._waiting: dict[str, deque[Waiting]] = {}  # by the subject that was refused, in the order in which they are tried
        self._tenants: Counter[str] = Counter()
        self.cause: str | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def means(self, refusal: NotPublished) -> bool:
        """Whether it is the stream that has no room; else the broker is in trouble, and the subscription is to pause."""
        return self._most > 0 and refusal.err_code in STORAGE_FULL_CODES

    def take(self, pending: PendingSettlement, refusal: NotPublished) -> bool:
        """Let it wait, until `retry` returns it; it must be in flight. False: too many wait, or too many of its tenant."""
        tenant = self._subscription.tenant_of(pending.message)
        if len(self) >= self._most or self._tenants[tenant] >= self._share:
            return False
        self._tenants[tenant] += 1
        self._waiting.setdefault(refusal.subject, deque()).append((tenant, pending))
        self._tell(f"{refusal.subject} cannot be stored: {refusal.cause}")
        return True

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
        """Another message each time: a large one that does not fit must not hold back the small ones."""
        result = await self._publisher.publish_and_wait(waiting[0][1].settlement.effects)
        if isinstance(result, NotPublished):
            waiting.rotate(-1)
            return []
        if self._waiting.get(subject) is not waiting:
            return []  # they were abandoned meanwhile
        del self._waiting[subject]
        self._tenants -= Counter(tenant for tenant, _ in waiting)  # what falls to nothing goes
        (_, first), *others = waiting
        return [(first, result), *((pending, None) for _, pending in others)]

    def _tell(self, cause: str | None) -> None:
        if (self.cause is None) != (cause is None):
            self._subscription.observer.on_storage(cause)
        self.cause = cause
