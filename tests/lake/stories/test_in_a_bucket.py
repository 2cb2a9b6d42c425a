"""Every command of the lake on a bucket, as it is installed: no Hadoop, and the checkpoint on this machine."""

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.broker import Broker
from tests.support.cli import call_command, router
from tests.support.kills import KillPlan
from tests.support.lake_driver import count_in_tables, fill_usage_stream
from tests.support.s3 import an_s3_server

EVENTS = 600


@pytest.mark.slow  # a JVM of its own: its workers read the variables when they start
@pytest.mark.timeout(600)
def test_what_is_ingested_into_a_bucket_is_the_truth_and_can_be_sealed_compacted_and_vacuumed(broker: Broker) -> None:
    """UL-3, UL-9, UL-10."""
    truth = fill_usage_stream(broker, EVENTS)
    with an_s3_server() as server:
        at = ("--warehouse", server.locate("tables"))
        spark = ("--master", "local[2]", "--max-rows", "250", "--json")
        ingested = router("usage", "ingest", *at, "--nats-url", broker.url, *spark, environ=server.environment, within_s=500)
        assert (ingested.status, ingested.json["read"], ingested.json["accepted"]) == (0, EVENTS, truth.accepted), ingested.err
        found = count_in_tables(KillPlan(("none",), 1, 0, EVENTS), server.locate("tables"), truth)
        assert found.is_exact, found
        report = ("usage", "report", *at, "--json")
        totals = call_command(*report).json["totals"]
        day = str((datetime.now(UTC) - timedelta(days=1)).date())
        assert call_command("usage", "seal", *at, "--from", day).status == 0
        assert call_command("usage", "compact", *at).status == 0
        assert call_command("usage", "vacuum", *at, "--older-than", "1").status == 0
        assert call_command("usage", "seal", *at, "--verify").status == 0
        assert call_command("usage", "reconcile", *at, "--offline").status == 0
        assert call_command(*report).json["totals"] == totals
