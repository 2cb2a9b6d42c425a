"""The disk is a disk: what was synced outlives a cut, and what was not is lost."""

from pathlib import Path

import pytest

from tests.rigs.powercut.writer import count_lost

# file systems are made and mounted
pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("can_cut")]


def test_a_line_that_was_synced_outlives_the_cut(tmp_path: Path) -> None:
    written = count_lost(tmp_path, 20, is_synced=True)
    assert written.said >= 20
    assert written.lost == 0


def test_lines_without_an_fsync_are_lost(tmp_path: Path) -> None:
    """The control: without it the disk may cut nothing at all."""
    written = count_lost(tmp_path, 200, is_synced=False)
    assert written.said >= 200
    assert written.lost > 0
