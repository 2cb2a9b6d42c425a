"""From a message to an event, in Spark's own expressions."""

from decimal import Decimal

import orjson
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from router.contracts.usage import UsageEvent, identity
from router.lake.tables.event import typed
from tests.support.lake_jobs import a_body, messages

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]  # Spark plans and compiles for seconds; the first test starts it

ODD = ["plain", 'a"b', "a\\b", '\\"', "\\u0041", "tab\tnew\nline", "\x01\x0b\x1f\x7f", "grün", "日本", "😀\\", "a/b", "\\u000B"]


def read(spark: SparkSession, *bodies: bytes) -> pa.Table:
    return typed(spark.createDataFrame(messages(bodies))).drop("raw").orderBy("seq").toArrow()


def test_the_identity_is_the_routers_own_on_odd_ids_too(spark: SparkSession) -> None:
    events = [
        UsageEvent(tenant_id=one, provider_id="p", event_type="t", latency_ms=1, cost=0.5, status="success", timestamp=1, request_id=other)
        for one in ODD
        for other in ODD
    ]
    found = read(spark, *(a_body(event.request_id or "", tenant_id=event.tenant_id) for event in events))
    assert found["event_id"].to_pylist() == [identity(event) for event in events]


def test_an_assignment_comes_before_a_request_and_an_empty_one_does_not_count(spark: SparkSession) -> None:
    first, second, third = read(spark, a_body("r", assignment_id="a"), a_body("r", assignment_id=""), a_body("r"))["event_id"].to_pylist()
    assert first != second == third


COSTS = {
    "0.1": "0.1",
    "0.30000000000000004": "0.3",
    "1.5e-7": "0.00000015",
    "0.0000000005": "0.000000001",  # half up, in the tenth place
    "0.00000000049": "0",
    "12345678901234567890.123456789": "12345678901234567890.123456789",  # no float holds that
    "3": "3",
}


def test_a_cost_is_read_from_its_text_and_rounded_half_up_beyond_nine_places(spark: SparkSession) -> None:
    found = read(spark, *(a_body(cost=text) for text in COSTS))
    assert found["cost"].to_pylist() == [Decimal(cost) for cost in COSTS.values()]


BAD = {
    b"": "not_an_event",
    b"null": "not_an_event",
    b"[1]": "not_an_event",
    b"\xff\xfe": "not_utf8",
    a_body(version=None): "not_an_event",
    a_body(latency_ms="fast"): "not_an_event",
    a_body(cost='"free"'): "not_an_event",
    a_body(status=""): "missing:status",
    a_body(request_id=None): "missing:assignment_id,request_id",
    a_body(latency_ms=-1): "invalid:latency_ms",
    a_body(timestamp=-1): "invalid:timestamp",
    a_body()[:-1]: "not_an_event",
}


def test_what_is_no_event_says_why(spark: SparkSession) -> None:
    found = read(spark, *BAD)
    assert found["reason"].to_pylist() == list(BAD.values())
    assert set(found["event_id"].to_pylist()) == {None}


def test_a_field_that_came_later_is_kept_in_bronze_and_disturbs_nothing(spark: SparkSession) -> None:
    body = orjson.dumps({**orjson.loads(a_body()), "region": {"name": "eu"}})
    assert read(spark, body)["reason"].to_pylist() == [None]
