"""A nats-server of a story's own: it is filled, and killed."""

import pytest

from tests.support.broker import Broker


@pytest.fixture
def broker(own_broker: Broker) -> Broker:
    return own_broker
