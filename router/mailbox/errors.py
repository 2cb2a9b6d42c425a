"""What a database can say, sorted by what to do next. No text here holds a connection string: it may hold a password."""

from __future__ import annotations

from router.errors import RouterError, Transient


class DatabaseUnavailable(Transient):
    """PostgreSQL does not answer, is starting or stopping, ended our transaction, or has no room: later it may."""

    code = "database_unavailable"


class DatabaseRefused(RouterError):
    """PostgreSQL answered with an error about what was asked. `sqlstate` and `constraint` decide, never the text."""

    code = "database_refused"

    def __init__(self, sqlstate: str, description: str, constraint: str | None = None) -> None:
        super().__init__(f"PostgreSQL error {sqlstate}: {description}")
        self.sqlstate = sqlstate
        self.constraint = constraint

    @property
    def is_clock_regression(self) -> bool:
        """The database's clock stepped back: `CHECK (occurred_at <= now() + 1 minute)` fails on rows that passed it before."""
        return self.constraint == "chk_occurred_not_future"
