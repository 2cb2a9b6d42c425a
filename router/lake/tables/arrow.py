"""The tables' columns as Arrow types, made from `schemas`, so that each type is written down once."""

from __future__ import annotations

import pyarrow as pa

from router.lake.tables.gold import HISTOGRAM_TYPE, INSTANT
from router.lake.tables.gold import MONEY_TYPE as COST
from router.lake.tables.gold_columns import MONEY
from router.lake.tables.schemas import SCHEMAS, list_columns

_KINDS = {
    "string": pa.string(),
    "bigint": pa.int64(),
    "boolean": pa.bool_(),
    "binary": pa.binary(),
    "timestamp": INSTANT,
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "map<int,bigint>": HISTOGRAM_TYPE,
    MONEY: COST,
}

ARROW = {
    table: pa.schema([(name, _KINDS[kind]) for name, kind in list_columns(table)])
    for table in SCHEMAS
}
EVENT = ARROW["silver"]
MESSAGE = ARROW["bronze"]
