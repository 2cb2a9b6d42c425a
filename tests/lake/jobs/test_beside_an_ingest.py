"""Compaction and seals commit although ingests commit while they read and write."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from router.core.errors import Conflict
from router.lake.jobs import compact as compaction
from router.lake.jobs.compact import compact
from router.lake.jobs.seal import is_unchanged, seal
from router.lake.warehouse import Warehouse
from tests.support.lake_jobs import NOON, Lake, a_body

DAY = NOON.date()


def before_each_commit(monkeypatch: pytest.MonkeyPatch, works: list[Callable[[], object]]) -> None:
    """The next of `works` runs before each try to commit."""
    append = Warehouse.append

    def append_late(self: Warehouse, *given: Any, **named: Any) -> Any:
        if works:
            works.pop(0)()
        return append(self, *given, **named)

    monkeypatch.setattr(Warehouse, "append", append_late)


def test_a_compaction_keeps_what_ingests_commit_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    before_each_commit(monkeypatch, [lambda: lake.take(a_body("r-3")), lambda: None, lambda: lake.take(a_body("r-4"))])
    assert compact(lake.warehouse, at_least=2) is not None
    assert [row["request_id"] for row in lake.rows("silver")] == ["r-1", "r-2", "r-3", "r-4"]
    assert sum(row["count"] for row in lake.rows("gold_day")) == 4


def test_two_compactions_at_once_are_a_conflict_and_no_row_doubles(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.take(a_body("r-1"))
    lake.take(a_body("r-2"))
    before_each_commit(monkeypatch, [lambda: compaction.compact(Warehouse(str(lake.home)), at_least=2)])
    with pytest.raises(Conflict):
        compact(lake.warehouse, at_least=2)
    assert len(lake.rows("silver")) == 2


def test_a_seal_is_committed_beside_ingests_of_other_days(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.take(a_body("r-1"))
    tomorrow = NOON + timedelta(days=1)
    before_each_commit(monkeypatch, [lambda: lake.take(a_body("r-2", at=tomorrow), came=tomorrow)])
    sealed = seal(lake.warehouse, DAY, DAY)
    assert (sealed.sequence, sealed.commit) == (1, 1)
    assert is_unchanged(lake.warehouse, sealed)
    assert len(lake.rows("silver")) == 2


def test_a_seal_is_made_again_if_an_event_of_its_period_came_meanwhile(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    lake.take(a_body("r-1", cost="1.0"))
    before_each_commit(monkeypatch, [lambda: lake.take(a_body("r-2", cost="2.0"))])
    sealed = seal(lake.warehouse, DAY, DAY)
    assert (sealed.sequence, sealed.commit) == (2, 2)
    assert is_unchanged(lake.warehouse, sealed)
    assert all(row["corrects_window"] is None for row in lake.rows("gold_day"))
