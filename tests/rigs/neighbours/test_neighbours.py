"""The neighbour matrix, shortly: one neighbour that asks for little; every part starts, is heard,
and ends.
"""

from pathlib import Path

import pytest

from tests.rigs.neighbours.__main__ import Options, run
from tests.rigs.neighbours.asking import DECIDED
from tests.rigs.neighbours.load import LATE
from tests.rigs.neighbours.page import render_page
from tests.rigs.neighbours.result import RowResult, Timing
from tests.rigs.neighbours.rows import BY_NAME

SHORT = Timing(seconds=1.0, after_s=1.0, warm_s=0.2)
# requests a second that pass for the capacity: nothing here may depend on how fast this machine is
FEW = 20.0


@pytest.mark.timeout(180)  # a router, a server and three processes start, on a machine that is busy
async def test_a_quiet_tenant_beside_a_small_flood_is_answered_and_the_table_written(
    tmp_path: Path,
) -> None:
    """Issue 17: the neighbour matrix."""
    found = await run(
        Options(rows=(BY_NAME["flood with a pipeline"],), timing=SHORT, capacity=FEW, has_bare=True)
    )
    (row,), (bare,) = (one.found for one in found.trees)
    # How many are asked and how many lost, a busy machine decides: each request has five seconds.
    assert min(_count_decided(bare), _count_decided(row)) > 0
    assert set(bare.neighbour["answers"]) <= {DECIDED, LATE}
    for one in (bare, row):
        assert 0 < sum(one.neighbour["answers"].values()) <= one.neighbour["sent"]
    assert row.resident_mib > 10
    written = tmp_path / "neighbours.md"
    written.write_text(render_page(found))
    assert "| flood with a pipeline |" in written.read_text()


def _count_decided(row: RowResult) -> int:
    """The quiet tenant's requests that were decided within their time, alone and beside the flood."""
    return sum(span.asked - span.lost for span in (row.alone, row.beside))
