"""Where an ingest begins: after what the log has, in the stream that it came from."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from router.core.errors import Misconfigured
from router.lake.jobs.ingest import IngestJob, _find_start, _make_options
from router.lake.source import DataLoss
from router.lake.warehouse import Progress, Warehouse
from tests.support.lake_commits import add_files
from tests.support.lake_crashes import die, happens_at
from tests.support.lake_jobs import FACTS, Lake, a_body

HUNDRED = replace(FACTS, last=100, messages=100)


@pytest.fixture
def ten(tmp_path: Path) -> Warehouse:
    """A warehouse that has the first ten messages."""
    warehouse = Warehouse(str(tmp_path))
    add_files(
        warehouse, {}, Progress(stream=HUNDRED.stream, created=HUNDRED.created, first=1, last=10)
    )
    return warehouse


def test_it_begins_with_the_first_message_and_goes_on_after_the_last_in_the_log(
    ten: Warehouse, tmp_path: Path
) -> None:
    assert (
        _find_start(
            Warehouse(str(tmp_path / "none")), replace(HUNDRED, first=3), fails_on_loss=True
        )
        == 3
    )
    assert _find_start(ten, HUNDRED, fails_on_loss=True) == 11


def test_messages_that_went_before_they_were_read_end_it_unless_they_may_be_lost(
    ten: Warehouse,
) -> None:
    """UL-12."""
    purged = replace(HUNDRED, first=51)
    with pytest.raises(DataLoss, match="begins at 51 now: sequences from 11 on are gone"):
        _find_start(ten, purged, fails_on_loss=True)
    assert _find_start(ten, purged, fails_on_loss=False) == 51


def test_messages_that_went_after_they_were_read_are_no_loss(ten: Warehouse) -> None:
    """UL-12."""
    assert _find_start(ten, replace(HUNDRED, first=11), fails_on_loss=True) == 11


@pytest.mark.parametrize("other", [{"created": "2026-11-02T00:00:00Z"}, {"stream": "OTHER"}])
def test_another_stream_s_messages_are_not_added_whatever_may_be_lost(
    ten: Warehouse, other: dict[str, str]
) -> None:
    """UL-18, UL-28."""
    with pytest.raises(Misconfigured, match="it holds ROUTER_USAGE, made 2026-11-01"):
        _find_start(ten, replace(HUNDRED, **other), fails_on_loss=False)


@pytest.mark.parametrize("point", ["lake_after_bronze", "lake_after_silver", "lake_after_gold"])
@pytest.mark.parametrize("other", [{"created": "2026-11-02T00:00:00Z"}, {"stream": "OTHER"}])
def test_another_stream_s_messages_are_not_added_to_a_first_batch_without_its_cut(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, point: str, other: dict[str, str]
) -> None:
    """UL-18, UL-28."""
    happens_at(monkeypatch, point, die)
    with pytest.raises(MemoryError):
        lake.take(a_body("r-1"))
    with pytest.raises(
        Misconfigured, match="it holds messages of another stream, or of one made before; this is"
    ):
        _find_start(lake.warehouse, replace(HUNDRED, **other), fails_on_loss=False)
    assert _find_start(lake.warehouse, HUNDRED, fails_on_loss=True) == (
        1 if point == "lake_after_bronze" else 2
    )


@pytest.mark.parametrize(("wanted", "ranges"), [(None, "8"), (3, "3")])
def test_a_batch_is_read_in_as_many_ranges_as_the_cluster_runs_tasks_or_as_was_asked(
    wanted: int | None, ranges: str
) -> None:
    job = IngestJob(warehouse="w", source={"stream": "S"}, partitions=wanted)
    assert _make_options(job, 8) == {
        "stream": "S",
        "maxOffsetsPerTrigger": "500000",
        "minPartitions": ranges,
    }
