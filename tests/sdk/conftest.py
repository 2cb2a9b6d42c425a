"""What the tests of the SDK share."""

from collections.abc import Iterator

import pytest

from tests.support.observability import LogLines, capture_log


@pytest.fixture
def lines() -> Iterator[LogLines]:
    """The log's lines, whatever an earlier test configured."""
    with capture_log() as lines:
        yield lines
