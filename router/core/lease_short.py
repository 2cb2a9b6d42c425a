"""What an instance leases from a bucket ahead of the decisions that use it, and a decision for
which that is too little.

Budgets and rate limits lease by rules of their own (`budgets.leases`, `policies.rate_leases`):
money that is lost with an instance comes back when its lease expires, tokens come back with the
time. They have in common how a decision waits for the bucket.
"""

from __future__ import annotations

from router.core.deferred import Deferred


class LeaseShort(Exception):
    """Raised by a decision, which may be tried again after `wait`. Nothing is reserved by it."""

    async def wait(self) -> None:
        """Until the bucket has answered. Raises BrokerUnavailable where the decision cannot do
        without.
        """
        raise NotImplementedError


class LeasedSlice:
    """What this instance has leased of one thing. `is_asked`: the bucket is asked for more."""

    __slots__ = ("_waiters", "is_asked")

    def __init__(self) -> None:
        self.is_asked = False
        self._waiters: list[Deferred[None]] = []

    async def join(self) -> None:
        """Until the bucket has answered."""
        if self.is_asked:
            waiter: Deferred[None] = Deferred()
            self._waiters.append(waiter)
            await waiter

    def answer(self) -> None:
        """Those that wait look again."""
        self.is_asked = False
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            waiter.resolve(None)
