"""Create or check what an agent needs before it starts: streams and durables that no other agent
uses.

another store's id in the durable's metadata    refused: it would find every redelivery new
                                                (docs/reference/requirements.md#mf-12)
filters that overlap on a work queue            refused, with the other durable's name (the server
                                                says 10100, and no name)
a stream that differs from the declared one     logged, and left as its operator made it
a durable of ours that differs                  changed to what this start declares
"""

from __future__ import annotations

from collections.abc import Sequence

from router.agents.topology import AgentSubscription, AgentTopology, find_overlap, topology_of
from router.core.errors import BrokerRefused, Misconfigured
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import ConsumerSpec, Topology, apply, create
from router.process.observability import events, logs

log = logs.logger(__name__)

OVERLAPS = (10099, 10100)  # a work queue's consumers must not share a message


async def prepare(
    jetstream: JetStream,
    subscriptions: Sequence[AgentSubscription],
    topology: AgentTopology,
    store_id: str,
) -> Topology:
    """Return the declared topology once it exists. Raises Misconfigured, BrokerUnavailable,
    BrokerRefused.
    """
    wanted = topology_of(subscriptions, topology, store_id)
    for difference in await create(jetstream, Topology(wanted.streams)):
        log.warning(events.TOPOLOGY_DRIFT, difference=str(difference))
    for subscription in subscriptions:
        await _require_owned(jetstream, subscription, store_id)
        if topology.is_work_queue(subscription.stream):
            await _require_alone(jetstream, subscription)
    await _apply_durables(jetstream, Topology((), wanted.consumers))
    return wanted


async def create_durable(jetstream: JetStream, spec: ConsumerSpec) -> None:
    """Create a durable that was deleted, unless its stream was deleted too."""
    if await jetstream.stream(spec.stream) is not None:
        await _apply_durables(jetstream, Topology((), (spec,)))


async def _apply_durables(jetstream: JetStream, wanted: Topology) -> None:
    try:
        await apply(jetstream, wanted)
    except BrokerRefused as exc:
        if exc.err_code in OVERLAPS:
            raise Misconfigured(
                "filters", "they overlap with another durable's on a work queue"
            ) from exc
        raise


async def _require_owned(
    jetstream: JetStream, subscription: AgentSubscription, store_id: str
) -> None:
    info = await jetstream.consumer(subscription.stream, subscription.durable)
    owner = info["config"].get("metadata", {}).get("store") if info is not None else None
    if info is not None and owner != store_id:
        raise Misconfigured(
            "store",
            f"durable {subscription.durable} on {subscription.stream} belongs to another "
            f"store ({owner or 'unknown'}): work with that one,"
            " or delete the durable if its store is gone",
        )


async def _require_alone(jetstream: JetStream, subscription: AgentSubscription) -> None:
    for config in await _consumers(jetstream, subscription.stream):
        if config.get("durable_name") == subscription.durable:
            continue
        others = config.get("filter_subjects") or (
            [config["filter_subject"]] if config.get("filter_subject") else ()
        )
        if (pair := find_overlap(subscription.filters, others)) is not None:
            raise Misconfigured(
                "filters",
                (
                    f"{pair[0]} overlaps with {pair[1]} of {config.get('name')}, and "
                    f"{subscription.stream} is a work queue"
                ),
            )


async def _consumers(jetstream: JetStream, stream: str) -> list[Json]:
    found: list[Json] = []
    while True:
        page = await jetstream.ask(f"CONSUMER.LIST.{stream}", {"offset": len(found)})
        found += [info["config"] for info in page.get("consumers") or ()]
        if len(found) >= page["total"]:
            return found
