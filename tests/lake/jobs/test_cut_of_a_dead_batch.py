"""A batch whose ingest died before its cut: the cut of another job shows it, and says how far it
reads.
"""

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pytest

from router.lake.jobs.backfill import Backfill
from router.lake.jobs.erase import erase
from router.lake.jobs.ingest import _complete_last_batch
from router.lake.jobs.retention import drop_old_days
from router.lake.jobs.seal import seal
from router.lake.warehouse import Progress, Warehouse
from tests.lake.without_jvm import IN_PROCESS
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_jobs import FACTS, NOON, Lake, a_body

DAY = NOON.date()
NEXT = DAY + timedelta(days=1)
WHOLE = Progress(stream=FACTS.stream, created=FACTS.created, first=3, last=4)


@pytest.fixture
def dead(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Two batches of two messages, over two days; all tables have the second one, and no cut."""
    lake.take(a_body("r-1", tenant_id="zed"), a_body("r-2", at=NOON + timedelta(days=1)))
    with monkeypatch.context() as patched:
        happens_at(patched, "lake_after_gold", die)
        with pytest.raises(MemoryError):
            lake.take(a_body("r-3", tenant_id="zed"), a_body("r-4", at=NOON + timedelta(days=1)))
    return lake


def backfill(warehouse: Warehouse) -> None:
    (file, *_) = [
        file for file in warehouse.tables["gold_hour"].list_files() if file.day == str(NEXT)
    ]
    table = warehouse.tables["gold_hour"].load()
    assert table is not None
    warehouse.tables["gold_hour"].replace([file], [], after=table.version())
    Backfill(IN_PROCESS, warehouse, NEXT, NEXT).apply()


JOBS: dict[str, Callable[[Warehouse], object]] = {
    "erase": lambda warehouse: erase(warehouse, "acme"),
    "retention": lambda warehouse: drop_old_days(warehouse, NEXT, has_unsealed=True),
    "backfill": backfill,
}


@pytest.mark.parametrize("job", JOBS)
def test_the_cut_names_the_batch_s_progress_and_a_later_seal_its_sequence(
    dead: Lake, job: str
) -> None:
    """UL-3, UL-10."""
    JOBS[job](dead.warehouse)
    after = Warehouse(str(dead.home))
    assert after.last_progress() == WHOLE
    head = after.head()
    _complete_last_batch(after, FACTS)
    assert after.head() == head
    assert seal(after, NEXT, NEXT).sequence == 4


def test_a_progress_that_no_cut_names_is_named_though_a_cut_shows_its_versions_already(
    tmp_path: Path,
) -> None:
    """UL-3."""
    warehouse, first = (
        Warehouse(str(tmp_path)),
        Progress(stream="S", created="C", first=1, last=100),
    )
    second = Progress(stream="S", created="C", first=101, last=200)
    warehouse.append_cut("ingest", {"silver": 1}, first)
    warehouse.append_cut("erase", {"silver": 2})
    assert warehouse.append_cut("ingest", {"silver": 1}, first) is None
    assert warehouse.append_cut("ingest", {"silver": 2}, second) is not None
    assert warehouse.append_cut("ingest", {"silver": 2}, second) is None
    assert warehouse.last_progress() == second
