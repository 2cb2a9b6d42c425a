"""What some messages of a subscription need and cannot reach now: a bucket without a leader, or one that was deleted.

    waits_alone   the messages that need it wait, kept alive, and the others go on; beyond `max_waiting` they are not held (`settlement`)
    else          the subscription pauses, because each of its messages needs it

One message tries again at intervals, for all that wait. If the broker as a whole is unavailable, nothing is delivered, so nothing goes on.
"""

from __future__ import annotations

from router.delivery.pause_switch import PauseSwitch
from router.delivery.subscription import Subscription


class Outages:
    """Of one subscription, by the part that noticed."""

    def __init__(self, subscription: Subscription, pause_switch: PauseSwitch) -> None:
        self._observer = subscription.observer
        self._pause_switch = pause_switch
        self._waits_alone = subscription.options.waits_alone
        self._most = subscription.options.max_waiting
        self._causes: dict[str, str] = {}

    @property
    def cause(self) -> str | None:
        """Why some messages wait while the others go on; None: none does."""
        return next(iter(self._causes.values()), None)

    def has_begun(self, by: str) -> bool:
        return by in self._causes or self._pause_switch.is_closed_by(by)

    def has_room(self, waiting: int) -> bool:
        """Whether one more may wait beside so many. A paused subscription gets no more, so all that it holds may."""
        return not self._waits_alone or waiting < self._most

    def begin(self, by: str, cause: str) -> None:
        if not self._waits_alone:
            self._pause_switch.close(by, cause)
            return
        if self.cause is None:
            self._observer.on_outage(cause)
        self._causes[by] = cause

    def end(self, by: str) -> None:
        """What `by` waited for is there again."""
        self._pause_switch.open(by)
        if self._causes.pop(by, None) is not None and not self._causes:
            self._observer.on_outage(None)
