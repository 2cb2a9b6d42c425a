"""Identities that count more than once, however far apart they came."""

from datetime import timedelta

from msgspec.structs import replace

from router.lake.jobs.backfill import Backfill
from router.lake.jobs.ingest import MicroBatchSink
from router.lake.reconcile import reconcile
from router.lake.reconcile.audit import audit
from tests.support.lake_jobs import FACTS, NOON, TASKS, Lake, a_body


def test_each_identity_counts_once_where_duplicates_were_found(lake: Lake) -> None:
    lake.take(a_body("r-1"), a_body("r-1"), a_body("r-2"))
    lake.take(a_body("r-2", cost="9.0"), a_body("r-3", at=NOON + timedelta(days=1)))
    found = audit(lake.spark, lake.warehouse)
    assert (found.is_right, found.events, found.identities, found.cost_too_much) == (True, 3, 3, 0)


def test_what_came_again_after_the_stream_had_lost_the_first_is_found_with_its_days_and_its_cost(
    lake: Lake,
) -> None:
    """UL-36: a reconciliation by days does not see it, where the days differ."""
    lake.take(a_body("r-1", cost="1.5"), a_body("r-2"))
    lake.writing = MicroBatchSink(lake.warehouse, replace(FACTS, first=3), TASKS, lake.told.append)
    lake.take(
        a_body("r-1", cost="1.5", at=NOON - timedelta(days=1)),
        a_body("r-2", cost="7.25", at=NOON - timedelta(days=2)),
        a_body("r-3"),
    )
    found = audit(lake.spark, lake.warehouse)
    assert (found.events, found.identities, found.repeated, found.conflicts) == (5, 3, 2, 1)
    assert found.to_json()["cost_too_much"] == "8.750000000"
    told = [(one.sequences, one.days, one.is_conflict) for one in found.first]
    days = [str(NOON.date() - timedelta(days=number)) for number in range(3)]
    assert told == [((1, 3), (days[0], days[1]), False), ((2, 4), (days[0], days[2]), True)]
    assert reconcile(lake.spark, lake.warehouse).is_right


def test_a_double_of_one_day_is_found_and_a_backfill_of_the_day_takes_it_out(lake: Lake) -> None:
    """UL-36."""
    lake.take(a_body("r-1", cost="1.5"))
    lake.writing = MicroBatchSink(lake.warehouse, replace(FACTS, first=2), TASKS, lake.told.append)
    lake.take(a_body("r-1", cost="1.5"))
    assert audit(lake.spark, lake.warehouse).repeated == 1
    assert not reconcile(lake.spark, lake.warehouse).is_right
    work = Backfill(lake.spark, lake.warehouse, NOON.date(), NOON.date())
    assert work.compare().events_too_many == 1
    work.apply()
    assert audit(lake.spark, lake.warehouse).is_right
    assert [row["seq"] for row in lake.rows("silver")] == [1]
