"""Run one agent: open its store, create its streams and durables, finish the work of its earlier
run; then run its supervision tree, a consumer for each stream.

open and lock the store -> streams and durables, or a refusal -> resume -> supervise the consumers
-> close the store, last
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path

from router.agents.adapter import AgentAdapter, check_adapter
from router.agents.database import StoreFile
from router.agents.envelope import read_envelope
from router.agents.given_up_messages import AgentMaxDeliverRecovery, StrandedSweep
from router.agents.observer import AgentAlerts, AgentObserver, AgentStats, Raise
from router.agents.store_worker import StoreThread, StoreWorker
from router.agents.topology import (
    DEAD_LETTER_SUBJECT,
    AgentSubscription,
    AgentTopology,
    create_durable,
    prepare,
    recovery_durable_of,
    subscriptions_of,
)
from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.dead_letter import DeadLetterWriter
from router.contracts.malformed import Malformed
from router.core.coalescer import GroupCommit
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from router.delivery.consume.consumer import Consumer, Deadlines
from router.delivery.consume.subscription import ACK, ConsumerOptions, Subscription
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.topology import Topology
from router.process.supervision import Child, Helper, Intensity, Supervisor, supervise

# -- An agent's supervision tree: its batches, its publish acks, a consumer for each stream with
# its recovery beside it.
#
#     {agent}   one_for_one, no restarts: a failure of the store ends the agent
#     ├── batches   handles many messages by two commits
#     ├── publish_acks   writes down where outgoing messages are stored
#     └── consumers   one_for_one
#         ├── MESHFORGE_COMMANDS             the agent's durable
#         ├── MESHFORGE_COMMANDS.stranded    advisories: messages that the server gave up
#         └── MESHFORGE_COMMANDS.sweep       messages that it gave up without an advisory
#
# They stop in reverse: the consumers drain while batches still run. All of them write their dead
# letters by one writer, which stands first.


# -- The tree.

TERM = b"+TERM"
BACKOFF_S = (1.0, 2.0, 4.0)


class AgentTree:
    """The tree of one run."""

    def __init__(
        self,
        agent: str,
        jetstream: JetStream,
        declared: Topology,
        topology: AgentTopology,
        *,
        work: StoreWorker,
        alerts: AgentAlerts,
        drain_s: float,
    ) -> None:
        """`declared`: what `prepare` made; a part that is missing later is created again from it."""
        self._agent = agent
        self._jetstream = jetstream
        self._specs = {(spec.stream, spec.durable): spec for spec in declared.consumers}
        self._topology = topology
        self._work = work
        self._alerts = alerts
        self._drain_s = drain_s
        self._batches = GroupCommit[Message, Outcome](work.handle)
        self._build_dead_letter = build_dead_letter_writer(
            agent, jetstream.connection, topology.max_payload_bytes
        ).write
        self.helpers: list[Helper] = []  # of the latest tree
        # the few subjects that an agent uses
        self._stream_of = lru_cache(maxsize=1024)(topology.stream_of)

    def tree(self, subscriptions: Sequence[AgentSubscription], *beside: Child) -> Supervisor:
        """`beside`: other children that live as long as the agent."""
        self.helpers.clear()
        consumers = Supervisor(
            "consumers",
            tuple(
                child for subscription in subscriptions for child in self._children_of(subscription)
            ),
            intensity=Intensity(5, 30),
        )
        batches = Child("batches", self._batches.run)
        publish_acks = Child("publish_acks", lambda: self._work.publish_acks.run(self._work.flush))
        return Supervisor(
            self._agent,
            (*beside, batches, publish_acks, consumers),
            intensity=Intensity(restarts=0),
        )

    def _children_of(self, subscription: AgentSubscription) -> Iterator[Child]:
        is_queue = self._topology.is_work_queue(subscription.stream)
        recovery = AgentMaxDeliverRecovery(
            subscription,
            self._jetstream,
            take=self._batches.add,
            build_dead_letter=self._build_dead_letter,
            alerts=self._alerts,
            is_work_queue=is_queue,
        )
        stop_s = self._drain_s + 5
        messages = self._consumer(
            subscription.stream,
            subscription.durable,
            self._batches.add,
            TERM,
            self._topology.prefetch,
        )
        advisories = self._consumer(
            self._topology.advisories, recovery_durable_of(subscription), recovery.handle, ACK, 64
        )
        yield Child(subscription.stream, messages.run, shutdown_s=stop_s)
        yield Child(f"{subscription.stream}.stranded", advisories.run, shutdown_s=stop_s)
        if is_queue:
            sweep = StrandedSweep(
                subscription,
                self._jetstream,
                advisories=self._topology.advisories,
                is_in_hand=messages.is_in_hand,
            )
            helper = Helper(
                f"{subscription.stream}.sweep", partial(sweep.run, self._topology.sweep)
            )
            self.helpers.append(helper)
            yield helper.child

    def _consumer(
        self, stream: str, durable: str, handle: Handler, dead_letter_ack: bytes, prefetch: int
    ) -> Consumer:
        spec = self._specs[stream, durable]
        subscription = Subscription(
            stream=stream,
            durable=durable,
            options=ConsumerOptions(
                # the store enforces the limit of attempts; this one is only a backstop
                max_attempts=2 * self._topology.max_deliver,
                backoff=BACKOFF_S,
                ack_wait=spec.ack_wait,
                prefetch=prefetch,
                max_delayed=spec.max_ack_pending // 2,
                max_waiting=max(1, prefetch // 4),
                # the server counts each message that is sent back, and gives it up
                pauses_above=True,
            ),
            handle=handle,
            dead_letter=self._build_dead_letter,
            dead_letter_ack=dead_letter_ack,
            observer=AgentObserver(durable, self._work.publish_acks, self._alerts),
            stream_of=self._stream_of,
        )
        return Consumer(
            subscription,
            self._jetstream,
            attempts_bucket=self._topology.attempts,
            create=partial(create_durable, self._jetstream, spec),
            deadlines=Deadlines(self._drain_s, self._drain_s + 2),
        )


# -- The dead letters, on `meshforge.failed.{original_subject}`
# (docs/reference/requirements.md#mf-8). A dead letter keeps any payload that an agent takes: a
# command is gone from its work queue once its dead letter is stored.


def build_dead_letter_writer(
    agent: str, connection: Connection, payload_bytes: int = MAX_PAYLOAD_BYTES
) -> DeadLetterWriter:
    return DeadLetterWriter(
        node_id=agent,
        max_bytes=lambda: connection.max_payload,
        payload_bytes=payload_bytes,
        subject_pattern=DEAD_LETTER_SUBJECT,
        extract=lambda message: _extract_ids(message, payload_bytes),
    )


def _extract_ids(message: Message, payload_bytes: int) -> dict[str, str]:
    try:
        return {"trace_id": read_envelope(message, payload_bytes).trace_id}
    except Malformed:
        return {}


# -- Run one agent: open its store, create its streams and durables, finish the work of its
# earlier run; then run its consumers.


DEFAULT_TOPOLOGY = AgentTopology()


class AgentRuntime:
    """An adapter, its store and its topology. `run` until cancelled; then it drains."""

    def __init__(
        self,
        adapter: AgentAdapter,
        store: Path,
        topology: AgentTopology = DEFAULT_TOPOLOGY,
        *,
        drain_s: float = 10.0,
        alert: Raise = lambda _: None,
    ) -> None:
        """`drain_s`: seconds that work in flight may take at the end.

        Raises Misconfigured for a name or filters that cannot be, or methods that could not be
        called.
        """
        check_adapter(adapter)
        self.stats = AgentStats()
        self._adapter = adapter
        self._path = store
        self._topology = topology
        self._drain_s = drain_s
        self._alerts = AgentAlerts(self.stats, alert)
        self._subscriptions = subscriptions_of(adapter, topology)
        self._work: StoreWorker | None = None
        self._consumers: AgentTree | None = None

    @property
    def duplicates(self) -> int:
        """Messages of this run that were applied before."""
        return self._work.duplicates if self._work is not None else 0

    @property
    def store_bytes(self) -> int:
        """Bytes of the store on the disk, its journal included; the store keeps every key."""
        return sum(
            file.stat().st_size
            for name in ("", "-wal")
            if (file := Path(f"{self._path}{name}")).exists()
        )

    @property
    def helpers(self) -> Sequence[Helper]:
        """Children that the agent can do without for a while."""
        return self._consumers.helpers if self._consumers is not None else ()

    @property
    def durables(self) -> tuple[str, ...]:
        return tuple(subscription.durable for subscription in self._subscriptions)

    async def run(
        self, jetstream: JetStream, on_ready: Callable[[], None] = lambda: None, *beside: Child
    ) -> None:
        """`beside`: children that live as long as the agent.

        Raises Misconfigured (a second process, another's durable, overlapping filters),
        StoreFailed, BrokerUnavailable.
        """
        thread = StoreThread()
        try:
            database = await thread.run(StoreFile, self._path)
            try:
                await self._run(database, thread, jetstream, on_ready, beside)
            finally:
                await thread.close()  # the thread finishes its current work first
                database.close()
        finally:
            await thread.close()

    async def _run(
        self,
        database: StoreFile,
        thread: StoreThread,
        jetstream: JetStream,
        on_ready: Callable[[], None],
        beside: Sequence[Child],
    ) -> None:
        work = self._work = StoreWorker(
            self._adapter,
            database,
            thread,
            self._topology,
            max_payload=jetstream.connection.max_payload,
        )
        there = await prepare(jetstream, self._subscriptions, self._topology, database.id)
        await work.resume(jetstream)
        on_ready()
        consumers = self._consumers = AgentTree(
            self._adapter.name,
            jetstream,
            there,
            self._topology,
            work=work,
            alerts=self._alerts,
            drain_s=self._drain_s,
        )
        await supervise(consumers.tree(self._subscriptions, *beside))
