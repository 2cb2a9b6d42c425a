"""A few races of each kind on a disk, two in a bucket, and the control that doubles. `make races`
runs a thousand.
"""

from pathlib import Path

import pytest

from tests.lake.races.kinds import KINDS
from tests.lake.races.run import WITHOUT_LOOK, RaceTally, run_races
from tests.support.s3 import an_s3_server

SAME = "two writers, the same batch"

# processes that import Arrow, Spark and delta-rs
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.parametrize("kind", KINDS)
def test_writers_beside_each_other_lose_and_double_nothing(kind: str, tmp_path: Path) -> None:
    """UL-3: UL-25 holds beside other writers, too."""
    tally = _run(kind, 2, tmp_path)
    assert tally.is_exact, tally


def test_a_writer_that_does_not_look_at_the_last_sequence_doubles_what_another_one_committed(
    tmp_path: Path,
) -> None:
    assert _run(SAME, 3, tmp_path, control=WITHOUT_LOOK).double > 0


def test_of_two_writers_in_a_bucket_one_wins_each_batch() -> None:
    """UL-3: the bucket refuses to put a commit that is there."""
    with an_s3_server() as server:
        (tally,) = run_races(
            SAME, 2, lambda: server.locate("races"), "bucket", environment=server.environment
        )
    assert tally.is_exact, tally


def _run(kind: str, races: int, home: Path, control: str = "") -> RaceTally:
    (tally,) = run_races(kind, races, lambda: str(home / "warehouse"), "disk", control=control)
    return tally
