"""Prices of a stream as if they had been measured, so that a test knows which way is taken."""

from functools import partial

import pytest

from router.core.clock import steady
from router.delivery.consume import consumer
from router.delivery.publish.batching_publisher import BatchingPublisher
from router.delivery.publish.publish_costs import PublishCosts


def dear() -> PublishCosts:
    """Of a stream on a slow disk: two messages pay together."""
    costs = PublishCosts()
    costs.add_singles(1, 0.05, steady())
    costs.add_singles(100, 100.0, steady())
    costs.add_batch(100, 0.01, steady())
    return costs


def cheap() -> PublishCosts:
    """Of a stream that never lets the router wait: no batch pays."""
    costs = PublishCosts()
    costs.add_singles(1, 0.0001, steady())
    costs.add_singles(1000, 0.01, steady())
    costs.add_batch(100, 10.0, steady())
    return costs


def write_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every consumer of this process takes its streams for dear ones."""
    monkeypatch.setattr(consumer, "BatchingPublisher", partial(BatchingPublisher, make_costs=dear))
