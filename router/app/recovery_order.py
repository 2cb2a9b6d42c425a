"""In which order a place's streams are copied, and which of them hold effects (docs/how-to/two-places.md)."""

from __future__ import annotations

from router.app.declared_topology import declare_topology
from router.config import Settings
from router.delivery.topology import StreamSpec


def list_in_order(settings: Settings) -> list[StreamSpec]:
    """Every declared stream, each before the streams of its effects: request, assignment, result, usage event.

    What is spent of budgets comes before the usage events: each one that is settled there has its event in the later copy.
    """
    streams, spent = settings.streams, f"KV_{settings.buckets.budgets_spent.name}"
    effects = (streams.assignments.name, streams.results.name, streams.acks.name, spent, streams.usage.name, streams.dlq.name)
    rank = {name: number for number, name in enumerate(effects, start=1)}
    buckets = len(rank) + 1  # written before their message is acked, whichever stream it stands in
    return sorted(declare_topology(settings).streams, key=lambda spec: rank.get(spec.name, buckets if spec.name.startswith("KV_") else 0))


def list_effect_streams(settings: Settings) -> frozenset[str]:
    """Streams whose messages have deterministic ids, so that the same effect is stored once."""
    streams = settings.streams
    return frozenset((streams.assignments.name, streams.usage.name, streams.dlq.name))
