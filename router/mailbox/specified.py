"""The columns of the two specified tables, and whether an existing table has them: these, and no other.

Rule: docs/reference/requirements.md#sd-1.

    outbox_events    docs/reference/requirements.md#sd-26        inbox_messages    docs/reference/requirements.md#sd-27

A service may have made the tables by the specification's SQL. Anything else under their names is named, and left alone.
"""

from __future__ import annotations

from typing import Final

from router.core.errors import Misconfigured
from router.mailbox.postgres import Session

TABLES: Final = {
    "outbox_events": {
        "id": "uuid NOT NULL",
        "aggregate_type": "text NOT NULL",
        "aggregate_id": "text NOT NULL",
        "event_type": "text NOT NULL",
        "event_version": "integer NOT NULL",
        "payload": "jsonb NOT NULL",
        "occurred_at": "timestamp with time zone NOT NULL",
        "correlation_id": "uuid",
        "causation_id": "uuid",
        "published_at": "timestamp with time zone",
        "publish_attempts": "integer NOT NULL",
        "publish_error": "text",
    },
    "inbox_messages": {
        "message_id": "uuid NOT NULL",
        "subject": "text NOT NULL",
        "received_at": "timestamp with time zone NOT NULL",
        "processed_at": "timestamp with time zone",
        "attempts": "integer NOT NULL",
        "last_error": "text",
    },
}

SELECT_COLUMNS: Final = """
    SELECT attname::text, format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' NOT NULL' ELSE '' END
    FROM pg_attribute WHERE attrelid = to_regclass(quote_ident(current_schema()) || '.' || %s) AND attnum > 0 AND NOT attisdropped"""


async def require_specified(session: Session) -> None:
    """Raises Misconfigured if a table of one of these names exists with other columns."""
    for table, specified in TABLES.items():
        found = dict(await session.fetch(SELECT_COLUMNS, (table,), make=_column))
        if found and found != specified:
            differing = sorted(name for name in found.keys() | specified.keys() if found.get(name) != specified.get(name))
            raise Misconfigured("mailbox.db_schema", f"the table {table} is there, and not as specified: {', '.join(differing[:5])}")


def _column(name: str, form: str) -> tuple[str, str]:
    return name, form
