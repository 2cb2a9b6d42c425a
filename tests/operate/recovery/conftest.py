"""Two servers for a backup and its restore."""

from collections.abc import Iterator

import pytest

from tests.support.broker import Broker


@pytest.fixture
def servers() -> Iterator[tuple[Broker, Broker]]:
    """One that is saved, and an empty one."""
    one, other = Broker().start(), Broker().start()
    yield one, other
    one.remove()
    other.remove()
