"""A message whose header names another tenant than its body."""

from datetime import timedelta

import pyarrow as pa
import pytest

from router.lake.jobs import erase as erasing
from router.lake.jobs.erase import erase
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.reconcile import reconcile
from router.lake.warehouse import Warehouse
from router.lake.warehouse.delta import LakeTable
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_jobs import MESSAGES, NOON, Lake, a_body, messages

DAY = NOON.date()
BODIES = (
    a_body("r-1", tenant_id="zed"),  # an event of zed's bill
    a_body("r-1", tenant_id="zed"),  # its duplicate
    a_body("r-1", tenant_id="zed", cost="7.0"),  # its conflict
    a_body("r-2", tenant_id="zed", cost="-1"),  # no event
    a_body("r-3", tenant_id=None),  # no event, and its body has no tenant
)


@pytest.fixture
def mixed(lake: Lake) -> Lake:
    """Five messages, the header of each names acme."""
    rows = messages(BODIES).to_pylist()
    lake.batch(
        pa.Table.from_pylist(
            [{**row, "headers": [("tenant_id", "acme")]} for row in rows], schema=MESSAGES
        )
    )
    return lake


def assert_right(lake: Lake) -> None:
    after = Warehouse(str(lake.home))
    left = {
        "bronze": [1, 2, 3],
        "silver": [1],
        "duplicates": [2],
        "conflicts": [3],
        "quarantine": [],
    }
    assert {table: [row["seq"] for row in lake.rows(table)] for table in left} == left
    assert [row["tenant_id"] for row in lake.rows("gold_day")] == ["zed"]
    assert not [
        check.name for check in reconcile(IN_PROCESS, after).checks if check.is_right is False
    ]
    assert all(is_unchanged(after, one) for one in after.seals())


def test_what_is_no_event_goes_with_either_and_an_event_with_the_tenant_whose_bill_it_is_in(
    mixed: Lake,
) -> None:
    """UL-35."""
    seal(mixed.warehouse, DAY, DAY)
    done = erase(mixed.warehouse, "acme")
    assert {table: count for table, count in done.rows.items() if count} == {
        "bronze": 2,
        "quarantine": 2,
    }
    assert_right(mixed)
    assert erase(mixed.warehouse, "zed").rows["bronze"] == 3
    assert not mixed.rows("bronze")


def test_an_erasure_that_dies_before_bronze_finds_the_same_again(
    mixed: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """UL-35."""
    rewrite = LakeTable.rewrite

    def die_or_rewrite(self: LakeTable, change: erasing.Callable) -> int | None:  # type: ignore[type-arg]
        if self.name == "bronze":
            raise MemoryError
        return rewrite(self, change)

    with monkeypatch.context() as patched:
        patched.setattr(LakeTable, "rewrite", die_or_rewrite)
        with pytest.raises(MemoryError):
            erase(mixed.warehouse, "acme")
    erase(mixed.warehouse, "acme")
    assert_right(mixed)


def test_a_header_counts_up_to_the_given_day_too(mixed: Lake) -> None:
    assert not any(erase(mixed.warehouse, "acme", before=DAY).rows.values())
    assert erase(mixed.warehouse, "acme", before=DAY + timedelta(days=1)).rows["bronze"] == 2
