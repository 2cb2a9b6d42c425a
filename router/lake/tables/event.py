"""From a message to a typed event, in Spark's own expressions: no Python runs for a row.

A cost is a decimal from its text (half up beyond nine places), never a float on the way. The event's identity is computed
from the body, byte for byte as `router.contracts.usage.identity` does. What is no usage event has a `reason`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import reduce

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from router.lake.tables.schemas import MONEY

_BODY = f"""version string, tenant_id string, provider_id string, event_type string, latency_ms bigint, cost {MONEY},
status string, timestamp bigint, trace_id string, assignment_id string, request_id string, _corrupt string"""
_STRICT = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": "_corrupt", "allowSingleQuotes": "false"}

REQUIRED = ("tenant_id", "provider_id", "event_type", "status", "latency_ms", "cost", "timestamp")
RAW = ("stream", "subject", "headers", "data")
_LAST_TIMESTAMP_MS = 253_402_300_799_999  # the year 9999
_SHORT = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_ESCAPES = {'"': '\\"', "\\": "\\\\", **{chr(code): f"\\u{code:04x}" for code in range(0x20)}, **_SHORT}


def typed(messages: DataFrame) -> DataFrame:
    """Every message with its event's columns; `reason` and `raw` are set where it is none."""
    text = f.col("data").cast("string")
    read = messages.select("*", f.is_valid_utf8(text).alias("is_text"), f.from_json(text, _BODY, _STRICT).alias("e"))
    flat = read.select("seq", "time", *RAW, "is_text", "e.*").withColumn("reason", _reason())
    known = flat.withColumn("hex", f.when(f.col("reason").isNull(), _digest()))
    return known.select(
        "seq",
        "time",
        "reason",
        f.when(f.col("reason").isNotNull(), f.struct(*RAW)).alias("raw"),
        f.concat(f.lit("usage:"), f.substring("hex", 1, 32)).alias("event_id"),
        *("tenant_id", "provider_id", "event_type", "status", "latency_ms", "cost"),
        f.when(f.col("reason").isNull(), f.timestamp_millis("timestamp")).alias("timestamp"),
        *("trace_id", "assignment_id", "request_id"),
        _number(1).alias("id_high"),
        _number(16).alias("id_low"),
        f.xxhash64("provider_id", "event_type", "latency_ms", "cost").alias("content"),
    )


def _reason() -> Column:
    """Why a message is no usage event; null when it is one."""
    rules = [
        (~f.col("is_text"), f.lit("not_utf8")),
        (f.col("_corrupt").isNotNull() | f.col("version").isNull(), f.lit("not_an_event")),
        *((f.coalesce(f.col(name).cast("string"), f.lit("")) == "", f.lit(f"missing:{name}")) for name in REQUIRED),
        (f.coalesce(_reference(), f.lit("")) == "", f.lit("missing:assignment_id,request_id")),
        (f.col("latency_ms") < 0, f.lit("invalid:latency_ms")),
        (~f.col("timestamp").between(0, _LAST_TIMESTAMP_MS), f.lit("invalid:timestamp")),
    ]
    return reduce(lambda rest, rule: f.when(rule[0], rule[1]).otherwise(rest), reversed(rules), f.lit(None).cast("string"))


def _reference() -> Column:
    """`assignment_id or request_id`, as Python means it."""
    return f.coalesce(f.nullif(f.col("assignment_id"), f.lit("")), f.col("request_id"))


def _digest() -> Column:
    """sha256 of the compact JSON array, 64 hex."""
    parts = (f.col("tenant_id"), _reference(), f.col("status"))
    is_odd = f.concat(*parts).rlike(r'["\\\x00-\x1f]')
    return f.sha2(f.when(is_odd, _array(map(_escaped, parts))).otherwise(_array(parts)), 256)


def _array(parts: Iterable[Column]) -> Column:
    """Of texts, as orjson writes it."""
    return f.concat(f.lit('["'), f.concat_ws('","', *parts), f.lit('"]'))


def _escaped(text: Column) -> Column:
    """A character at a time: rare."""
    forms = f.create_map(*(f.lit(part) for form in _ESCAPES.items() for part in form))
    return f.array_join(f.transform(f.split(text, ""), lambda one: f.coalesce(f.try_element_at(forms, one), one)), "")


def _number(first: int) -> Column:
    """Fifteen hex digits of the identity as a number: two of them are 120 bits of a sha256, which nobody makes meet."""
    return f.conv(f.substring("hex", first, 15), 16, 10).cast("bigint")
