"""Every command of the lake on a bucket, as it is installed: no Hadoop, and the checkpoint on this
machine.
"""

from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from router.shell import exit_codes
from tests.support.broker import Broker
from tests.support.cli import call_command, router
from tests.support.kills import KillPlan
from tests.support.lake_driver import count_in_tables, fill_usage_stream
from tests.support.s3 import an_s3_server

EVENTS = 600
LONGEST_S = 500


@pytest.mark.matrix
@pytest.mark.slow  # a JVM of its own: its workers read the variables when they start
@pytest.mark.timeout(600)
def test_what_is_ingested_into_a_bucket_is_the_truth_and_can_be_sealed_compacted_and_vacuumed(
    broker: Broker,
) -> None:
    """UL-3, UL-9, UL-10."""
    truth = fill_usage_stream(broker, EVENTS)
    with an_s3_server() as server:
        at = ("--warehouse", server.locate("tables"))
        spark = ("--master", "local[2]", "--max-rows", "250", "--json")
        ingest = partial(
            router,
            "usage",
            "ingest",
            *at,
            "--nats-url",
            broker.url,
            *spark,
            environ=server.environment,
            within_s=LONGEST_S,
        )
        # Spark gives a task up whose Python starts late, on a busy machine
        while (ended := ingest()).status == exit_codes.NO:
            assert ended.err
        assert ended.status == exit_codes.OK, ended.err
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
