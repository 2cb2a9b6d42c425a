"""Where power cannot be cut, these tests are skipped, and say why."""

import pytest

from tests.rigs.powercut.disk import find_obstacle
from tests.rigs.powercut.server import find_strace_obstacle


@pytest.fixture
def can_cut() -> None:
    if (obstacle := find_obstacle()) is not None:
        pytest.skip(obstacle)


@pytest.fixture
def can_slow_fsyncs(can_cut: None) -> None:
    if (obstacle := find_strace_obstacle()) is not None:
        pytest.skip(obstacle)
