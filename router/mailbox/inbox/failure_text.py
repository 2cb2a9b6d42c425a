"""The text that is kept of a handler's failure, with its row and its dead letter: the kind of
failure, and its message.

    Poison("no customer")     no customer
    ValueError("no stock")    ValueError: no stock
    a database's refusal      PostgreSQL 23505 orders_pkey: its own text may hold a value, and is
                              left out

Both places hold the event as well, so the text may quote it; no log line does. Logins and keys are
hidden, a long text is cut, and characters that a column of PostgreSQL cannot hold are escaped.
"""

from __future__ import annotations

from router.core.errors import RouterError
from router.core.handler_exit import text_of
from router.core.masking import hide_keys, hide_logins, printable, shorten
from router.mailbox.errors import DatabaseRefused

MAX_FAILURE_TEXT = 500  # characters


def describe_failure(exc: BaseException) -> str:
    """Raises nothing, even if the exception's own text raises."""
    kind = type(exc).__name__
    if isinstance(exc, DatabaseRefused):
        return f"PostgreSQL {exc.sqlstate}{f' {exc.constraint}' if exc.constraint else ''}"
    text = printable(hide_logins(hide_keys(shorten(text_of(exc), MAX_FAILURE_TEXT))))
    if isinstance(exc, RouterError):
        return text or exc.code
    return f"{kind}: {text}" if text else kind
