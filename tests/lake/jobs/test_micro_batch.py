"""What a micro-batch does to the tables."""

from collections import Counter
from datetime import timedelta
from decimal import Decimal
from typing import Any

from tests.support.lake_jobs import NOON, TASKS, Lake, a_body, messages


def test_an_event_is_in_bronze_silver_and_every_grain_of_gold(lake: Lake) -> None:
    lake.take(a_body())
    assert [
        len(lake.rows(table))
        for table in ("bronze", "silver", "gold_minute", "gold_hour", "gold_day")
    ] == [1, 1, 1, 1, 1]


def test_minutes_are_of_all_tenants_together_and_hours_and_days_of_each(lake: Lake) -> None:
    """UL-8."""
    tenants = ("acme", "globex", "initech")
    lake.take(
        *(
            a_body(f"r-{minute}", tenant_id=one, at=NOON + timedelta(minutes=minute))
            for minute in (0, 7)
            for one in tenants
        )
    )
    assert "tenant_id" not in lake.rows("gold_minute")[0]
    assert _count_by(lake.rows("gold_minute"), "window_start") == {
        NOON: 3,
        NOON + timedelta(minutes=7): 3,
    }
    for table in ("gold_hour", "gold_day"):
        assert _count_by(lake.rows(table), "tenant_id") == dict.fromkeys(tenants, 2)


def _count_by(rows: list[dict[str, Any]], key: str) -> Counter[Any]:
    """Each task has partial sums of its own."""
    counts: Counter[Any] = Counter()
    for row in rows:
        counts[row[key]] += row["count"]
    return counts


def test_a_message_that_is_no_event_is_quarantined_with_its_bytes_and_the_reason(
    lake: Lake,
) -> None:
    """UL-2."""
    lake.take(a_body(), b"{broken", a_body(tenant_id=None))
    assert [(row["seq"], row["data"], row["reason"]) for row in lake.rows("quarantine")] == [
        (2, b"{broken", "not_an_event"),
        (3, a_body(tenant_id=None), "missing:tenant_id"),
    ]
    assert lake.told[0].counts["quarantined"] == 2


def test_the_same_identity_and_content_counts_once_within_a_batch_and_batches_later(
    lake: Lake,
) -> None:
    """UL-1, UL-4."""
    lake.take(
        a_body("r-1"),
        a_body("r-2"),
        a_body("r-1", at=NOON + timedelta(seconds=5), trace_id="another"),
    )
    lake.take(a_body("r-3"))
    lake.take(a_body("r-2"), a_body("r-4"))
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1", "r-2", "r-3", "r-4"]
    assert [(row["seq"], row["first_seq"]) for row in lake.rows("duplicates")] == [(3, 1), (5, 2)]


def test_the_same_identity_with_other_content_is_a_conflict_and_the_first_one_counts(
    lake: Lake,
) -> None:
    """UL-4."""
    lake.take(a_body("r-1", cost="0.5"))
    lake.take(a_body("r-1", cost="0.75"), a_body("r-2", cost="1.0"), a_body("r-2", cost="2.0"))
    told = [
        (
            row["seq"],
            row["first_seq"],
            '"cost":0.75' in row["content"],
            '"cost":0.5' in row["first_content"],
        )
        for row in lake.rows("conflicts")
    ]
    assert told == [(2, 1, True, True), (4, 3, False, False)]
    assert [row["cost"] for row in lake.rows("silver")] == [Decimal("0.5"), Decimal("1")]


def test_a_task_writes_one_file_a_day_of_what_it_rejects_whatever_buckets_it_comes_from(
    lake: Lake,
) -> None:
    """The driver reads a list of all files for each batch: what makes the list long makes every
    batch dear.
    """
    bodies = [
        a_body(f"r-{number}", cost=cost) for cost in ("0.5", "0.5", "0.75") for number in range(40)
    ]
    lake.take(*bodies)
    assert (len(lake.rows("duplicates")), len(lake.rows("conflicts"))) == (40, 40)
    assert (len(lake.warehouse.files("duplicates")), len(lake.warehouse.files("conflicts"))) == (
        TASKS,
        TASKS,
    )


def test_a_batch_that_is_committed_is_not_written_again(lake: Lake) -> None:
    """UL-3."""
    rows = messages([a_body("r-1"), a_body("r-2")])
    lake.batch(rows)
    lake.batch(rows)  # as after a checkpoint that was lost: another number, the same sequences
    assert len(lake.rows("bronze")) == len(lake.rows("silver")) == 2
    assert not lake.rows("duplicates")


def test_readers_see_a_batch_wholly_or_not_at_all(lake: Lake) -> None:
    """UL-3."""
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"), b"bad")
    assert len(lake.rows("silver", as_of_cut=1)) == 1
    assert not lake.rows("quarantine", as_of_cut=1)


def test_late_events_are_marked_and_counted_by_how_late_they_are(lake: Lake) -> None:
    """UL-5."""
    lake.take(
        a_body("r-1"),
        a_body("r-2", at=NOON - timedelta(minutes=30)),
        a_body("r-3", at=NOON - timedelta(days=3)),
    )
    counts = lake.told[0].counts
    assert {name: count for name, count in counts.items() if name.startswith("late")} == {
        "late_within_1h": 1,
        "late_within_7d": 1,
    }
    assert [
        row["late"] for row in sorted(lake.rows("gold_minute"), key=lambda row: row["window_start"])
    ] == [True, True, False]


def test_a_late_event_is_another_revision_of_its_window(lake: Lake) -> None:
    """UL-5."""
    lake.take(a_body("r-1", cost="1.0"))
    lake.take(a_body("r-2", cost="2.0"), came=NOON + timedelta(hours=1))
    told = [
        (row["revision"], row["window_start"], row["late"], row["cost"])
        for row in lake.rows("gold_minute")
    ]
    assert sorted(told) == [(1, NOON, False, 1), (2, NOON, True, 2)]


def test_a_micro_batch_without_a_message_leaves_no_commit(lake: Lake) -> None:
    """UL-29."""
    lake.take()
    assert (lake.warehouse.head(), lake.told) == (0, [])
