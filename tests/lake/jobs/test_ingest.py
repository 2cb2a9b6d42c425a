"""Where an ingest begins: after what the log has, in the stream that it came from."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from router.core.errors import Misconfigured
from router.lake.jobs.ingest import IngestJob, _find_start, _make_options
from router.lake.source import DataLoss
from router.lake.warehouse import Commit, Warehouse
from tests.support.lake_jobs import FACTS

HUNDRED = replace(FACTS, last=100, messages=100)


@pytest.fixture
def ten(tmp_path: Path) -> Warehouse:
    """A warehouse that has the first ten messages."""
    warehouse = Warehouse(str(tmp_path))
    read = {"kind": "ingest", "stream": HUNDRED.stream, "created": HUNDRED.created, "first": 1, "last": 10}
    warehouse.append(lambda number, at: Commit(commit=number, at=at, **read), after=0)
    return warehouse


def test_it_begins_with_the_first_message_and_goes_on_after_the_last_in_the_log(ten: Warehouse, tmp_path: Path) -> None:
    assert _find_start(Warehouse(str(tmp_path / "none")), replace(HUNDRED, first=3), fails_on_loss=True) == 3
    assert _find_start(ten, HUNDRED, fails_on_loss=True) == 11


def test_messages_that_went_before_they_were_read_end_it_unless_they_may_be_lost(ten: Warehouse) -> None:
    """UL-12."""
    purged = replace(HUNDRED, first=51)
    with pytest.raises(DataLoss, match="begins at 51 now: sequences from 11 on are gone"):
        _find_start(ten, purged, fails_on_loss=True)
    assert _find_start(ten, purged, fails_on_loss=False) == 51


def test_messages_that_went_after_they_were_read_are_no_loss(ten: Warehouse) -> None:
    """UL-12."""
    assert _find_start(ten, replace(HUNDRED, first=11), fails_on_loss=True) == 11


@pytest.mark.parametrize("other", [{"created": "2026-11-02T00:00:00Z"}, {"stream": "OTHER"}])
def test_another_stream_s_messages_are_not_added_whatever_may_be_lost(ten: Warehouse, other: dict[str, str]) -> None:
    """UL-18, UL-28."""
    with pytest.raises(Misconfigured, match="it holds ROUTER_USAGE, made 2026-11-01"):
        _find_start(ten, replace(HUNDRED, **other), fails_on_loss=False)


@pytest.mark.parametrize(("wanted", "ranges"), [(None, "8"), (3, "3")])
def test_a_batch_is_read_in_as_many_ranges_as_the_cluster_runs_tasks_or_as_was_asked(wanted: int | None, ranges: str) -> None:
    job = IngestJob(warehouse="w", source={"stream": "S"}, partitions=wanted)
    assert _make_options(job, 8) == {"stream": "S", "maxOffsetsPerTrigger": "500000", "minPartitions": ranges}
