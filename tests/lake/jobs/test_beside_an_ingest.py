"""Compaction and seals commit although batches are committed while they read and write."""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest
from deltalake import DeltaTable

from router.core.errors import Conflict
from router.lake.jobs import maintenance
from router.lake.jobs import seal as sealing
from router.lake.jobs.maintenance import Compaction, compact, vacuum
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.warehouse import Seal, Warehouse
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()


def take(other: Lake, seq: int, body: bytes) -> None:
    from tests.support.lake_jobs import messages

    other.batch(messages([body], first=seq))


def test_a_compaction_keeps_what_a_batch_commits_meanwhile(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    optimize, works = maintenance._optimize, [lambda: take(other, 3, a_body("r-3"))]

    def optimize_late(table: DeltaTable) -> Compaction:
        while works:
            works.pop()()
        return optimize(table)

    monkeypatch.setattr(maintenance, "_optimize", optimize_late)
    compact(lake.warehouse)
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1", "r-2", "r-3"]
    assert sum(row["count"] for row in lake.rows("gold_day")) == 3


def test_a_batch_that_is_committed_after_a_compaction_shows_it(lake: Lake) -> None:
    for number in range(4):
        lake.take(a_body(f"r-{number}"))
    before = len(lake.warehouse.files("gold_day"))
    compact(lake.warehouse)
    assert len(lake.warehouse.files("gold_day")) < before
    lake.take(a_body("r-0"), a_body("r-9"))
    assert [row["first_seq"] for row in lake.rows("duplicates")] == [1]
    assert len(lake.rows("silver")) == 5


def test_a_compaction_merges_the_files_of_cuts_and_every_cut_is_read_as_before(lake: Lake) -> None:
    """Each micro-batch adds a file there, and each looks at the list of them."""
    for number in range(4):
        lake.take(a_body(f"r-{number}"))
    before = [lake.warehouse.cut(number) for number in range(1, 5)]
    compact(lake.warehouse)
    vacuum(lake.warehouse, older_than=timedelta(0))
    after = Warehouse(str(lake.home))
    # of before, and the cut that shows the compaction
    assert len(DeltaTable(f"{lake.home}/cuts").file_uris()) == 2
    assert [after.cut(number) for number in range(1, 5)] == before
    assert len(list(Path(lake.home).glob("cuts/*.parquet"))) == 2
    lake.take(a_body("r-9"))
    assert after.head() == 6


def test_a_batch_that_is_planned_before_a_compaction_is_committed_after_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    happens_at(monkeypatch, "lake_after_write", lambda: compact(lake.warehouse))
    lake.take(a_body("r-1"), a_body("r-3"))
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1", "r-2", "r-3"]
    assert [row["first_seq"] for row in lake.rows("duplicates")] == [1]


def test_a_vacuum_deletes_what_was_replaced_and_spares_sealed_periods_and_the_newest_cut(
    lake: Lake,
) -> None:
    lake.take(a_body("r-1", cost="1.0"))
    sealed = seal(lake.warehouse, DAY, DAY)
    for number in range(2, 5):
        lake.take(a_body(f"r-{number}"))
    compact(lake.warehouse)
    assert vacuum(lake.warehouse, older_than=timedelta(0), dry_run=True)
    gone = vacuum(lake.warehouse, older_than=timedelta(0))
    assert gone
    assert is_unchanged(lake.warehouse, sealed)
    assert len(lake.rows("silver")) == 4


def test_a_seal_is_committed_beside_batches_of_other_days(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    late = a_body("r-2", at=NOON + timedelta(days=1))
    before_each_mark(monkeypatch, [lambda: take(other, 2, late)])
    sealed = seal(lake.warehouse, DAY, DAY)
    assert (sealed.sequence, sealed.cut, sealed.rows) == (2, 2, 1)
    assert is_unchanged(lake.warehouse, sealed)


def test_a_seal_is_made_again_if_an_event_of_its_period_came_meanwhile(
    lake: Lake, other: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1", cost="1.0"))
    before_each_mark(monkeypatch, [lambda: take(other, 2, a_body("r-2", cost="2.0"))])
    sealed = seal(lake.warehouse, DAY, DAY)
    assert (sealed.sequence, sealed.cut) == (2, 2)
    assert lake.warehouse.seals() == [sealed]
    assert is_unchanged(lake.warehouse, sealed)
    assert all(row["corrects_window"] is None for row in lake.rows("gold_day"))


def test_a_batch_that_was_planned_before_a_seal_corrects_the_sealed_day(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1", cost="1.0"))
    sealed: list[Seal] = []
    happens_at(
        monkeypatch,
        "lake_after_write",
        lambda: sealed.append(seal(Warehouse(str(lake.home)), DAY, DAY)),
    )
    lake.take(a_body("r-2", cost="2.0"), came=NOON + timedelta(days=1))
    (late,) = [row for row in lake.rows("gold_day") if row["cost"] == 2]
    assert late["corrects_window"] is not None
    assert late["window_start"].date() == DAY + timedelta(days=1)
    assert is_unchanged(lake.warehouse, sealed[0])


def test_a_seal_beside_a_batch_without_its_cut_says_what_to_do(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.take(a_body("r-1"))
    happens_at(monkeypatch, "lake_after_gold", die)
    with pytest.raises(MemoryError):
        lake.take(a_body("r-2"))
    monkeypatch.setattr(sealing, "PATIENCE_S", 0.2)
    with pytest.raises(Conflict, match="run `router usage ingest`"):
        seal(lake.warehouse, DAY, DAY)


def before_each_mark(monkeypatch: pytest.MonkeyPatch, works: list[Callable[[], object]]) -> None:
    mark = sealing._mark

    def mark_late(warehouse: Warehouse, made: Seal, version: int) -> int | None:
        while works:
            works.pop(0)()
        return mark(warehouse, made, version)

    monkeypatch.setattr(sealing, "_mark", mark_late)
