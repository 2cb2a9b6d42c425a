"""Decide when to check that the broker still has what it acknowledged; `broker_loss` does the check.

it reconnected                     a server that restarted may have lost messages: a quick check, then `integrity_scan` restarts
it could not store something       it may be replaced soon
its sequences went back            a stream of the same name was created anew while we were connected
a minute passed
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from router.core.clock import steady
from router.delivery.wire.api import JetStream
from router.mailbox.outbox.broker_loss import reset_lost_rows
from router.mailbox.outbox.relay_batch import RelayReport
from router.mailbox.postgres import Database

Restore = Callable[[], Awaitable[object]]  # makes the stream if it is missing and we may make it


class BrokerLossDetector:
    """The detector of one relay. `every`: seconds between two checks without a cause; `on_new_life`: called after a reconnect."""

    def __init__(
        self,
        database: Database,
        jetstream: JetStream,
        stream: str,
        *,
        every: float,
        restore: Restore,
        on_new_life: Callable[[], None],
    ) -> None:
        self._database = database
        self._jetstream = jetstream
        self._stream = stream
        self._every = every
        self._restore = restore
        self._on_new_life = on_new_life
        self._newest = 0
        self._looked: tuple[int, float] | None = None  # the reconnect count at the last check, and its time
        self.created = ""  # when the stream of that name was created
        self.subjects: tuple[str, ...] = (">",)  # that the stream accepts

    async def check(self) -> int:
        """Return how many rows are to be published again. Raises as `reset_lost_rows`, and what `restore` raises."""
        now, lives = steady(), self._jetstream.connection.reconnect_count
        if self._looked is not None and self._looked[0] == lives and now < self._looked[1] + self._every:
            return 0
        await self._restore()
        snapshot, taken_back = await reset_lost_rows(self._database, self._jetstream, self._stream)
        self.created, self.subjects = snapshot.created, snapshot.subjects
        if self._looked is None or self._looked[0] != lives:
            self._on_new_life()
        self._looked, self._newest = (lives, now), 0
        return taken_back

    def observe(self, report: RelayReport) -> None:
        """Note the result of a batch."""
        has_gone_back = report.published > report.duplicates and report.newest <= self._newest
        if report.broker_error is not None or has_gone_back:
            self._looked = None
        self._newest = max(self._newest, report.newest)
