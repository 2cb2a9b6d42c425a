"""Tells a service's readiness whether its database answers: how the last look ended, or that a look
waits too long for its answer.

    with watch.look():                    # around the query of the gauges
        async with database.transaction() as session: …
    watch.check                           # at any time, also while the look waits

A server that hangs, or one whose machine vanished, closes nothing: the look itself ends late, or
not at all (docs/explanation/durability.md#vanished-database).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from router.core.clock import steady
from router.mailbox.errors import DatabaseUnavailable
from router.process.observability import ReadinessCheck

ANSWER_S = 10.0  # a look takes milliseconds; it may wait five seconds for a connection


class DatabaseWatch:
    """Watches one database. `clock`: seconds, steady."""

    def __init__(self, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._error: str | None = None
        self._since: float | None = None  # when the look that is under way began

    @contextmanager
    def look(self) -> Iterator[None]:
        """Remember how the block ends. It ends quietly if the database is unavailable."""
        self._since = self._clock()
        try:
            yield
            self._error = None
        except DatabaseUnavailable as exc:
            self._error = str(exc)
        finally:
            self._since = None

    @property
    def check(self) -> ReadinessCheck:
        error = self._error
        if self._since is not None and self._clock() - self._since > ANSWER_S:
            error = f"PostgreSQL has given no answer for more than {ANSWER_S:g} s"
        return ReadinessCheck(error is None, error or "answering")
