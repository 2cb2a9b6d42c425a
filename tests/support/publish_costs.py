"""Prices of a stream as if they had been measured, so that a test knows which way is taken."""

import pytest

from router.core.clock import steady
from router.delivery.consume import consumer
from router.delivery.kv import record_creator
from router.delivery.publish.batching_publisher import BatchingPublisher, StreamOf
from router.delivery.publish.known_effects import KnownEffects
from router.delivery.publish.publish_costs import PublishCosts
from router.delivery.wire.api import JetStream


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


class AlwaysDear(PublishCosts):
    """Two messages pay together, whatever is measured.

    A lone message waits long, or else a slow machine that makes one at a time never has two.
    """

    is_dear = True
    hold_s = 0.2

    def pays(self, messages: int) -> bool:
        return messages > 1

    def is_single_due(self, messages: int, now: float) -> bool:
        return False


class AlwaysBatching(BatchingPublisher):
    """Takes its streams for dear ones before it has sent anything to them."""

    def __init__(
        self,
        jetstream: JetStream,
        timeout_s: float = 5.0,
        known: KnownEffects | None = None,
        *,
        stream_of: StreamOf,
    ) -> None:
        super().__init__(jetstream, timeout_s, known, stream_of=stream_of, make_costs=AlwaysDear)

    def _choose_way(self) -> None:
        self._carry = self._send_in_turn


def write_in_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """This process takes its streams and its bucket of records for dear ones."""
    monkeypatch.setattr(consumer, "BatchingPublisher", AlwaysBatching)
    monkeypatch.setattr(record_creator, "BatchingPublisher", AlwaysBatching)
