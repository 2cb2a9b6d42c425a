"""A period that is closed reads the same for ever."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal

import pytest

from router.core.errors import Misconfigured
from router.lake.jobs.maintenance import compact
from router.lake.jobs.seal import is_unchanged, seal
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()


def test_what_comes_for_a_sealed_day_corrects_it_from_the_day_it_came_in(lake: Lake) -> None:
    """UL-5, UL-10."""
    lake.take(a_body("r-1", cost="1.0"))
    sealed = seal(lake.warehouse, DAY, DAY)
    lake.take(a_body("r-2", cost="2.0"), came=NOON + timedelta(days=1))
    (late,) = [row for row in lake.rows("gold_day") if row["cost"] == 2]
    assert late["window_start"].date() == DAY + timedelta(days=1)
    assert late["corrects_window"] == datetime.combine(NOON.date(), time.min, UTC)
    assert is_unchanged(lake.warehouse, sealed)


def test_the_sum_of_all_windows_is_the_sum_of_all_events_sealed_or_not(lake: Lake) -> None:
    lake.take(a_body("r-1", cost="0.000000001"))
    seal(lake.warehouse, DAY, DAY)
    # the day it came in is sealed, too
    lake.take(a_body("r-2", cost="2.5"), a_body("r-3", at=NOON + timedelta(days=1)), came=NOON)
    assert sum(row["cost"] for row in lake.rows("gold_day")) == Decimal("3.000000001")


def test_compaction_changes_no_seal(lake: Lake) -> None:
    """UL-6, UL-10."""
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    sealed = seal(lake.warehouse, DAY, DAY)
    assert compact(lake.warehouse).files_after
    assert is_unchanged(lake.warehouse, sealed)
    assert len(lake.rows("silver")) == 2


def test_a_seal_notices_that_a_sum_is_not_what_it_was(lake: Lake) -> None:
    """UL-10."""
    lake.take(a_body("r-1"))
    sealed = seal(lake.warehouse, DAY, DAY)
    lake.take(a_body("r-2", at=NOON + timedelta(days=1)))
    assert not is_unchanged(
        lake.warehouse,
        type(sealed)(
            **{
                **{name: getattr(sealed, name) for name in sealed.__struct_fields__},
                "hash": "0" * 64,
            }
        ),
    )


@pytest.mark.parametrize(
    ("first", "last"), [(DAY, DAY - timedelta(days=1)), (DAY, date(2999, 1, 1))]
)
def test_a_period_that_is_not_over_or_ends_before_it_begins_is_not_sealed(
    lake: Lake, first: date, last: date
) -> None:
    with pytest.raises(Misconfigured):
        seal(lake.warehouse, first, last)


def test_a_day_is_sealed_once(lake: Lake) -> None:
    lake.take(a_body("r-1"))
    seal(lake.warehouse, DAY, DAY)
    with pytest.raises(Misconfigured, match="sealed already"):
        seal(lake.warehouse, DAY, DAY)
