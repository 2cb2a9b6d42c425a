"""An agent's supervision tree: its batches, its receipts, a lane for each stream with the safety net beside it.

    {agent}   one_for_one, no restarts: what ends the store's work ends the agent
    ├── batches     many messages, two commits
    ├── receipts    where outgoing messages stand
    └── lanes       one_for_one
        ├── MESHFORGE_COMMANDS             the agent's durable
        ├── MESHFORGE_COMMANDS.stranded    what the server gave up
        └── MESHFORGE_COMMANDS.sweep       and did not say so

Stopped in reverse: the lanes drain while batches are still worked on.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache, partial

from router.delivery.api import JetStream
from router.delivery.batches import Batches
from router.delivery.consumer import Consumer, Deadlines
from router.delivery.subscription import ACK, ConsumerOptions, Subscription
from router.delivery.topology import Topology
from router.outcome import Handler
from router.runtime.ground import restored
from router.runtime.letters import letter_writer
from router.runtime.noted import Noted, Told
from router.runtime.places import Places, Post, net_of
from router.runtime.rescue import Rescue
from router.runtime.work import Work
from router.supervision import Child, Helper, Intensity, Supervisor

TERM = b"+TERM"
BACKOFF_S = (1.0, 2.0, 4.0)


class Lanes:
    """The tree of one life."""

    def __init__(
        self, agent: str, jetstream: JetStream, there: Topology, places: Places, *, work: Work, told: Told, drain_s: float
    ) -> None:
        """`there`: what `prepare` made; what is missing later is made again by it."""
        self._agent = agent
        self._jetstream = jetstream
        self._there = there
        self._places = places
        self._work = work
        self._told = told
        self._drain_s = drain_s
        self._batches = Batches(work.handle)
        self._letter = letter_writer(agent, jetstream.connection, places.max_payload_bytes)
        self.helpers: list[Helper] = []  # of the tree that was drawn last
        self._stream_of = lru_cache(maxsize=1024)(places.stream_of)  # the few subjects that an agent uses

    def tree(self, posts: Sequence[Post], *beside: Child) -> Supervisor:
        """`beside`: whatever else lives as long as the agent does."""
        self.helpers.clear()
        lanes = Supervisor("lanes", tuple(child for post in posts for child in self._of(post)), intensity=Intensity(5, 30))
        receipts = Child("receipts", lambda: self._work.receipts.run(self._work.flush))
        return Supervisor(self._agent, (*beside, Child("batches", self._batches.run), receipts, lanes), intensity=Intensity(restarts=0))

    def _of(self, post: Post) -> Iterator[Child]:
        is_queue = self._places.is_work_queue(post.stream)
        rescue = Rescue(post, self._jetstream, take=self._batches.take, letter=self._letter, told=self._told, is_work_queue=is_queue)
        stop_s = self._drain_s + 5
        lane = self._lane(post.stream, post.durable, self._batches.take, TERM, self._places.prefetch)
        net = self._lane(self._places.advisories, net_of(post), rescue.handle, ACK, 64)
        yield Child(post.stream, self._consumer(lane).run, shutdown_s=stop_s)
        yield Child(f"{post.stream}.stranded", self._consumer(net).run, shutdown_s=stop_s)
        if is_queue:
            sweep = Helper(f"{post.stream}.sweep", partial(rescue.sweep, self._places.sweep))
            self.helpers.append(sweep)
            yield sweep.child

    def _lane(self, stream: str, durable: str, handle: Handler, last_word: bytes, prefetch: int) -> Subscription:
        places = self._places
        return Subscription(
            stream=stream,
            durable=durable,
            pace=ConsumerOptions(
                max_attempts=2 * places.max_deliver,  # the store counts attempts, and its word holds: the desk's count is not to come first
                backoff=BACKOFF_S,
                ack_wait=places.ack_wait,
                prefetch=prefetch,
                max_delayed=places.max_ack_pending // 2,
            ),
            handle=handle,
            letter=self._letter,
            apology=lambda *_: None,
            last_word=last_word,
            observer=Noted(durable, self._work.receipts, self._told),
            stream_of=self._stream_of,
        )

    def _consumer(self, lane: Subscription) -> Consumer:
        return Consumer(
            lane,
            self._jetstream,
            starts_bucket=self._places.starts,
            answer=lambda *_: None,
            restore=partial(restored, self._jetstream, self._there, lane.stream, lane.durable),
            deadlines=Deadlines(self._drain_s, self._drain_s + 2),
        )
