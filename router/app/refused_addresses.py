"""Addresses to which no answer is sent: counted, and told in the log with the address, at most one line a second."""

from __future__ import annotations

from collections.abc import Callable

from router.observability import LogRateLimit, Metrics, events, logs

log = logs.logger(__name__)

LONGEST = 128  # characters of an address in the log: it is input


def note_refused(metrics: Metrics, place: str) -> Callable[[str], None]:
    """What is called with each refused address; `place`: who would have answered there."""
    once = LogRateLimit()

    def note(address: str) -> None:
        metrics.replies_refused.increment()
        if once.allow(None):
            log.warning(events.REPLY_REFUSED, place=place, address=address[:LONGEST], so_far=metrics.replies_refused.value)

    return note
