"""A slice: what this instance may reserve of one budget without asking the bucket.

reserve ──> remaining - cost ──> below half of a slice: the next one is asked for, in the background
   └── too little ──> SliceShort: the request waits for an answer of the bucket, or is refused if that has just had none
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from router.budgets.model.budget import Budget
from router.core.errors import BrokerUnavailable
from router.core.lease_short import LeasedSlice, LeaseShort

WAIT_S = 2.0  # of a request, for a larger slice
REFUSED_S = 0.5  # for so long the bucket's no holds


class SliceShort(LeaseShort):
    """Raised by a decision that does not fit into slices of this instance: the bucket may have
    more.
    """

    def __init__(self, slices: Sequence[BudgetSlice]) -> None:
        super().__init__("a slice is too small")
        self._slices = slices

    async def wait(self) -> None:
        """Until the bucket has answered for all of them. Raises BrokerUnavailable if it does not,
        in time.
        """
        try:
            async with asyncio.timeout(WAIT_S):
                for one in self._slices:
                    await one.join()
        except TimeoutError:
            raise BrokerUnavailable("a budget cannot be read: its bucket gives no answer") from None


class BudgetSlice(LeasedSlice):
    """Of one budget. `ask` wakes what asks the bucket. Money is nanos, times are seconds of the
    server's clock.
    """

    def __init__(self, budget: Budget, size: int, ask: Callable[[BudgetSlice], None]) -> None:
        super().__init__()
        self.budget = budget
        self.size = size
        self.remaining = 0
        self.starts_s = self.ends_s = 0  # of the window that `remaining` is for
        self.number = 0  # of the lease that is charged
        self.lease_ends = 0.0  # then the next lease begins
        self.seen_s = 0.0  # when a request looked whether it is refused
        self.left: int | None = None  # for all instances, when the bucket was read last
        self.need = 0  # the largest reservation that waits
        self._ask = ask
        self._refused_from = 0  # so large a reservation, and a larger one, had no room
        self._refused_until = 0.0

    def has_room(self, nanos: int, now: float) -> bool:
        return nanos <= self.remaining and now < self.ends_s

    def is_refused(self, nanos: int, now: float) -> bool:
        """Whether the bucket has just said that there is no room for so much."""
        self.seen_s = now
        return now < self._refused_until and nanos >= self._refused_from and now < self.ends_s

    def find_wait_ms(self) -> int:
        """Until the window ends, by the last time that was looked at."""
        return max(0, round((self.ends_s - self.seen_s) * 1000))

    def charge(self, nanos: int) -> None:
        self.remaining -= nanos
        if self.remaining < self.size >> 1 and not self.is_asked:
            self.request()

    def request(self, need: int = 0) -> None:
        """Have the bucket asked; `need`: the reservation that waits for it."""
        self.need = max(self.need, need)
        self.is_asked = True
        self._ask(self)

    def on_granted(self, granted: int) -> None:
        self.remaining += granted
        self.answer()

    def on_refused(self, nanos: int, now: float) -> None:
        """The bucket has no room for so much."""
        self._refused_from, self._refused_until = nanos, now + REFUSED_S
        self.answer()

    def answer(self) -> None:
        """Those that wait look again."""
        self.need = 0
        super().answer()
