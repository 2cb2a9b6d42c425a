"""The streams, filters and durables of an agent: MeshForge's topology
(docs/reference/requirements.md#meshforge), and how it is created or checked before the agent
starts.

    MESHFORGE_EVENTS     evt.>                limits (or work queue)
    MESHFORGE_COMMANDS   cmd.>                work queue: a command goes to one durable, so the
                                              filters of all are disjoint
    MESHFORGE_FAILED     meshforge.failed.>   dead letters

An agent has a durable `{agent}_consumer` on each stream that its filters name. The durable belongs
to one store, whose id is in its metadata: with another store every redelivery would be new, and its
effects double.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec import Struct

from router.agents.adapter import AgentAdapter, filters_of
from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.core import ids
from router.core.errors import BrokerRefused, Misconfigured
from router.delivery.consume.advisories import ADVISORY_STREAM as ADVISORIES
from router.delivery.consume.advisories import advisories_stream, advisory_subject
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.topology import ConsumerSpec, StreamSpec, Topology, apply, bucket, create
from router.process.observability import events, logs

DEAD_LETTER_SUBJECT = "meshforge.failed.{original_subject}"
_DAY = 86_400.0


class AgentTopology(Struct, frozen=True, kw_only=True):
    """Names and limits. Durations are seconds. `scope`: the middle tokens of the default filter."""

    events: str = "MESHFORGE_EVENTS"
    commands: str = "MESHFORGE_COMMANDS"
    failed: str = "MESHFORGE_FAILED"
    advisories: str = ADVISORIES
    attempts: str = "ROUTER_ATTEMPTS"
    scope: str = "default.demo"
    events_retention: str = "limits"
    events_max_age: float = 0.0  # 0 = for ever
    max_bytes: int = -1  # of each of the two streams; a full one accepts nothing more
    max_payload_bytes: int = MAX_PAYLOAD_BYTES  # of a message that an agent accepts
    duplicate_window: float = 120.0
    max_deliver: int = 5
    ack_wait: float = 30.0
    max_ack_pending: int = 10_000
    prefetch: int = 2_048
    sweep: float = 60.0  # between two scans for stranded messages
    replicas: int = 1
    # `advisories` and `attempts`, which other processes make as well; none: with default limits
    shared: tuple[StreamSpec, ...] = ()

    def stream_of(self, subject: str) -> str | None:
        """The stream that accepts a subject, or all of a filter; None: none of ours."""
        head, dot, _ = subject.partition(".")
        return {"evt": self.events, "cmd": self.commands}.get(head) if dot else None

    def is_bound(self, subject: str) -> bool:
        return self.stream_of(subject) is not None

    def is_work_queue(self, stream: str) -> bool:
        return stream == self.commands or self.events_retention == "workqueue"

    def streams(self) -> tuple[StreamSpec, ...]:
        window, copies = self.duplicate_window, self.replicas
        return (
            StreamSpec(
                name=self.events,
                subjects=("evt.>",),
                retention=self.events_retention,
                max_age=self.events_max_age,
                max_bytes=self.max_bytes,
                discard="new",
                duplicate_window=window,
                replicas=copies,
                allow_atomic=True,
            ),
            StreamSpec(
                name=self.commands,
                subjects=("cmd.>",),
                retention="workqueue",
                max_bytes=self.max_bytes,
                discard="new",
                duplicate_window=window,
                replicas=copies,
                allow_atomic=True,
            ),
            StreamSpec(
                name=self.failed,
                subjects=("meshforge.failed.>",),
                max_age=30 * _DAY,
                discard="new",
                duplicate_window=3_600.0,
                replicas=copies,
            ),
            *(
                self.shared
                or (
                    advisories_stream(self.advisories, copies),
                    bucket(self.attempts, ttl=3_600.0, replicas=copies),
                )
            ),
        )


class AgentSubscription(Struct, frozen=True):
    """One stream that an agent consumes."""

    stream: str
    durable: str
    filters: tuple[str, ...]


def subscriptions_of(
    adapter: AgentAdapter, topology: AgentTopology
) -> tuple[AgentSubscription, ...]:
    """The agent's subscriptions. Raises Misconfigured for an invalid name or filter."""
    name = adapter.name
    if not ids.is_token(name):
        raise Misconfigured(
            "name", f"an agent's name should be 1..64 of A-Z a-z 0-9 _ -, {name!r} is not"
        )
    filters = filters_of(adapter) or (f"cmd.{topology.scope}.{name}.>",)
    for number, subject_filter in enumerate(filters):
        if topology.stream_of(subject_filter) is None:
            raise Misconfigured("filters", f"{subject_filter!r} should begin with evt. or cmd.")
        for other in filters[:number]:
            if can_overlap(subject_filter, other):
                raise Misconfigured(
                    "filters", f"{subject_filter} and {other} overlap: a message would come twice"
                )
    return tuple(
        AgentSubscription(
            stream,
            f"{name}_consumer",
            tuple(
                subject_filter
                for subject_filter in filters
                if topology.stream_of(subject_filter) == stream
            ),
        )
        for stream in (topology.commands, topology.events)
        if any(topology.stream_of(subject_filter) == stream for subject_filter in filters)
    )


def topology_of(
    subscriptions: Sequence[AgentSubscription], topology: AgentTopology, store_id: str
) -> Topology:
    """The declared topology: every stream, the agent's durables, and those of its recovery."""
    return Topology(
        topology.streams(),
        (
            *(_durable(subscription, topology, store_id) for subscription in subscriptions),
            *(_recovery_consumer(subscription, topology) for subscription in subscriptions),
        ),
    )


def recovery_durable_of(subscription: AgentSubscription) -> str:
    """The durable that gets advisories about messages of this subscription that the server gave up."""
    return f"{subscription.stream}_{subscription.durable}_stranded"


def can_overlap(one: str, other: str) -> bool:
    """Whether a subject can match both filters."""
    for left, right in zip(one.split("."), other.split("."), strict=False):
        if ">" in (left, right):
            return True
        if left != right and "*" not in (left, right):
            return False
    return len(one.split(".")) == len(other.split("."))


def find_overlap(filters: Iterable[str], others: Iterable[str]) -> tuple[str, str] | None:
    """The first pair that overlaps; no filter at all means every subject."""
    others = tuple(others) or (">",)
    return next(
        ((one, other) for one in filters for other in others if can_overlap(one, other)), None
    )


def _durable(
    subscription: AgentSubscription, topology: AgentTopology, store_id: str
) -> ConsumerSpec:
    return ConsumerSpec(
        stream=subscription.stream,
        durable=subscription.durable,
        filter_subjects=subscription.filters,
        ack_wait=topology.ack_wait,
        max_ack_pending=topology.max_ack_pending,
        max_deliver=topology.max_deliver,
        metadata={"store": store_id},
    )


def _recovery_consumer(subscription: AgentSubscription, topology: AgentTopology) -> ConsumerSpec:
    return ConsumerSpec(
        stream=topology.advisories,
        durable=recovery_durable_of(subscription),
        filter_subject=advisory_subject(subscription.stream, subscription.durable),
    )


# -- Create or check what an agent needs before it starts: streams and durables that no other
# agent uses.
#
# another store's id in the durable's metadata    refused: it would find every redelivery new
#                                                 (docs/reference/requirements.md#mf-12)
# filters that overlap on a work queue            refused, with the other durable's name (the server
#                                                 says 10100, and no name)
# a stream that differs from the declared one     logged, and left as its operator made it
# a durable of ours that differs                  changed to what this start declares


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
    configs: list[Json] = []
    while True:
        page = await jetstream.ask(f"CONSUMER.LIST.{stream}", {"offset": len(configs)})
        configs += [info["config"] for info in page.get("consumers") or ()]
        if len(configs) >= page["total"]:
            return configs
