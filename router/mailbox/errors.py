"""Errors of the database, sorted by what to do next. No text here holds a connection string, since
it may hold a password.
"""

from __future__ import annotations

from router.core.errors import RouterError, Transient


class DatabaseUnavailable(Transient):
    """PostgreSQL does not answer, is starting or stopping, ended our transaction, or has no room. A
    later try may succeed.
    """

    code = "database_unavailable"


class DatabaseRefused(RouterError):
    """PostgreSQL answered a statement with an error. `sqlstate` and `constraint` decide what
    follows, never the text.
    """

    code = "database_refused"

    def __init__(self, sqlstate: str, description: str, constraint: str | None = None) -> None:
        super().__init__(f"PostgreSQL error {sqlstate}: {description}")
        self.sqlstate = sqlstate
        self.constraint = constraint

    @property
    def is_clock_regression(self) -> bool:
        """The database's clock stepped back: rows that passed `CHECK (occurred_at <= now() + 1
        minute)` before fail it now.
        """
        return self.constraint == "chk_occurred_not_future"
