"""Whether a service's database answers, for its readiness: how the last look at it ended, or that one waits for its answer too long.

    with watch.look():                    # around the query of the gauges
        async with database.transaction() as session: …
    watch.check                           # at any time, also while the look waits

A server that hangs, or one whose machine vanished, closes nothing: the look itself ends late, or not at all
(docs/explanation/durability.md#vanished-database).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from router.core.clock import steady
from router.mailbox.errors import DatabaseUnavailable
from router.operations.observability import ReadinessCheck

ANSWER_S = 10.0  # a look takes milliseconds; it may wait five seconds for a connection


class DatabaseWatch:
    """Of one database. `clock`: seconds."""

    def __init__(self, clock: Callable[[], float] = steady) -> None:
        self._clock = clock
        self._error: str | None = None
        self._since: float | None = None  # the look that goes on

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
