"""Counts reply subjects to which the router does not answer, and logs them, at most one line a second."""

from __future__ import annotations

from collections.abc import Callable

from router.operations.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)

MAX_LOGGED_ADDRESS = 128  # characters of an address in the log: clients choose it


def note_refused(metrics: Metrics, place: str) -> Callable[[str], None]:
    """Builds the callback for refused addresses; `place`: the part that would have answered."""
    once = LogRateLimit()

    def note(address: str) -> None:
        metrics.replies_refused.increment()
        if once.allow(None):
            log.warning(events.REPLY_REFUSED, place=place, address=address[:MAX_LOGGED_ADDRESS], so_far=metrics.replies_refused.value)

    return note
