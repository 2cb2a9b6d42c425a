"""A nats-server of a story's own: it is filled, and killed."""

from collections.abc import Iterator

import pytest

from tests.support.broker import Broker


@pytest.fixture
def broker() -> Iterator[Broker]:
    broker = Broker().start()
    yield broker
    broker.remove()
