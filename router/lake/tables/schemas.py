"""The columns of every table. Additive: a new column is added at the end of a table; none is
removed or changes its type.

`day` (YYYY-MM-DD, UTC) is the directory of a file, and a function of one column: of `time` in
tables of messages, of `timestamp` in silver, of `window_start` in gold. A file that is older than a
column gives null there.
"""

from __future__ import annotations

import re

from router.lake.tables.gold_columns import (
    FIRST_FIGURES,
    GOLD_COLUMNS,
    GOLD_TABLES,
    HISTOGRAM,
    MONEY,
    declare,
)

_MESSAGE = (
    "stream string, seq bigint, subject string, time timestamp, headers map<string,string>, "
    "data binary"
)

_EVENT = f"""seq bigint, event_id string, tenant_id string, provider_id string, event_type string, status string,
latency_ms bigint, cost {MONEY}, timestamp timestamp, trace_id string, assignment_id string, request_id string,
time timestamp, id_high bigint, id_low bigint, content bigint,
model string, input_tokens bigint, cached_tokens bigint, output_tokens bigint, price string, estimated boolean, correlated boolean,
adjustment string, adjusts string, budget string, told_cost {MONEY}"""

_FIRST = tuple(column for column in GOLD_COLUMNS if column.name in FIRST_FIGURES)
# at the end of the table, as every new column
_LATER = tuple(column for column in GOLD_COLUMNS if column.name not in FIRST_FIGURES)

_SUMS = f"""late boolean, corrects_window timestamp,
{declare(_FIRST)}, {HISTOGRAM} map<int,bigint>, revision bigint{", " if _LATER else ""}{declare(_LATER)}"""


def _declare_sums(dimensions: tuple[str, ...]) -> str:
    return f"window_start timestamp, {', '.join(f'{name} string' for name in dimensions)}, {_SUMS}"


SCHEMAS = {
    "bronze": _MESSAGE,
    "quarantine": f"{_MESSAGE}, reason string",
    "silver": _EVENT,
    "duplicates": "seq bigint, event_id string, first_seq bigint, time timestamp",
    "conflicts": (
        "seq bigint, event_id string, first_seq bigint, time timestamp, content string, "
        "first_content string"
    ),
    **{name: _declare_sums(table.dimensions) for name, table in GOLD_TABLES.items()},
}

DAY_OF = {
    "bronze": "time",
    "quarantine": "time",
    "silver": "timestamp",
    "duplicates": "time",
    "conflicts": "time",
    **dict.fromkeys(GOLD_TABLES, "window_start"),
}

PARTITIONS = {table: ("day", "bucket") if table == "silver" else ("day",) for table in SCHEMAS}

TABLE_DESCRIPTIONS = {
    "bronze": "every message, as it was stored",
    "quarantine": "messages that are no usage event, and the reason",
    "silver": "the events that count: each identity once, the lowest sequence",
    "duplicates": "an identity again with the same content, and the sequence that counts",
    "conflicts": (
        "an identity again with other content (provider, type, latency, cost; of an adjustment "
        "what it corrects), and both"
    ),
    "gold_minute": (
        "partial sums a minute (UTC) of all tenants together, mergeable: add them up over what "
        "you group by"
    ),
    "gold_hour": "partial sums an hour, by tenant",
    "gold_day": "the same a day: what reports read",
}


def list_columns(table: str) -> list[tuple[str, str]]:
    """Return name and type of each column, in order; without `day`, which is in no file."""
    parts = re.split(r",\s+", SCHEMAS[table])
    return [(name, kind) for name, _, kind in (part.partition(" ") for part in parts)]
