"""What some messages of a subscription need and cannot reach now: a bucket without a leader, or one
that was deleted. And the switch that pauses the whole subscription.

    waits_alone               the messages that need it wait, kept alive, and the others go on;
                              beyond `max_waiting` they are not held
                              (`settlement`)
    waits_alone_for_refusal   the same where the bucket is missing or sealed, which may last until
                              an operator acts
    else                      the subscription pauses, because nearly each of its messages needs it

One message tries again at intervals, for all that wait. If the broker as a whole is unavailable,
nothing is delivered, so nothing goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from router.core.errors import StorageRefused
from router.delivery.consume.subscription import Subscription

# -- The switch that pauses a subscription, for example while effects cannot be stored.
#
# Meanwhile nothing is pulled, no attempt is spent, and what is not stored gets no ack.


class PauseSwitch:
    """Open, or closed for causes that an operator can read. The part that closes it for a cause
    opens it again.
    """

    def __init__(self, changed: Callable[[str | None], None]) -> None:
        self._causes: dict[str, str] = {}
        self._changed = changed
        self._opened = asyncio.Event()
        self._opened.set()
        self.is_open = True  # a plain attribute, because it is read for each message

    @property
    def cause(self) -> str | None:
        return next(iter(self._causes.values()), None)

    def is_closed_by(self, by: str) -> bool:
        return by in self._causes

    def close(self, by: str, cause: str) -> None:
        self._causes[by] = cause
        if self.is_open:
            self.is_open = False
            self._opened.clear()
            self._changed(cause)

    def open(self, by: str) -> None:
        if self._causes.pop(by, None) is not None and not self._causes:
            self.is_open = True
            self._opened.set()
            self._changed(None)

    def reset(self) -> None:
        """Open for every cause: the parts that closed it have ended."""
        for by in list(self._causes):
            self.open(by)

    async def wait(self) -> None:
        """Until it is open."""
        await self._opened.wait()


# -- What some messages of a subscription need and cannot reach now: a bucket without a leader, or
# one that was deleted.


class Outages:
    """Of one subscription, by the part that noticed."""

    def __init__(self, subscription: Subscription, pause_switch: PauseSwitch) -> None:
        self._observer = subscription.observer
        self._pause_switch = pause_switch
        self._options = subscription.options
        self._causes: dict[str, str] = {}

    @property
    def cause(self) -> str | None:
        """Why some messages wait while the others go on; None: none does."""
        return next(iter(self._causes.values()), None)

    def has_begun(self, by: str) -> bool:
        return by in self._causes or self._pause_switch.is_closed_by(by)

    def can_wait(self, waiting: int, cause: Exception) -> bool:
        """Whether one more may wait beside so many. A paused subscription gets no more, so all that
        it holds may.
        """
        return not self._is_alone(cause) or waiting < self._options.max_waiting

    def has_room(self, waiting: int, by: str) -> bool:
        """The same for what `by` waits for already. What is never sent back may take the whole
        prefetch.
        """
        return (
            by not in self._causes
            or self._options.pauses_above
            or waiting < self._options.max_waiting
        )

    def begin(self, by: str, cause: Exception, *, is_rare: bool = False) -> None:
        """`is_rare`: only messages that fail need it."""
        may_wait = is_rare and self._options.max_waiting > 0 and isinstance(cause, StorageRefused)
        if not (may_wait or self._is_alone(cause)):
            self._pause_switch.close(by, str(cause))
            self._forget(by)
            return
        if self.cause is None:
            self._observer.on_outage(str(cause))
        self._causes[by] = str(cause)
        self._pause_switch.open(by)

    def end(self, by: str) -> None:
        """What `by` waited for is there again."""
        self._pause_switch.open(by)
        self._forget(by)

    def _is_alone(self, cause: Exception) -> bool:
        options = self._options
        return options.waits_alone or (
            options.waits_alone_for_refusal and isinstance(cause, StorageRefused)
        )

    def _forget(self, by: str) -> None:
        if self._causes.pop(by, None) is not None and not self._causes:
            self._observer.on_outage(None)
