"""One agent at work: its store is opened, what it stands on made, its earlier life's work finished; then its lanes run.

open and lock the store -> streams, durables, or a refusal -> resume -> supervise the lanes -> close the store, last
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from router.delivery.api import JetStream
from router.runtime.adapter import AgentAdapter, check_adapter
from router.runtime.database import Database
from router.runtime.ground import prepare
from router.runtime.lanes import Lanes
from router.runtime.noted import Raise, Tally, Told
from router.runtime.places import Places, posts_of
from router.runtime.thread import StoreThread
from router.runtime.work import Work
from router.supervision import Child, Helper, supervise

HERE = Places()


class AgentRuntime:
    """An adapter, its store and where it works. `run` until cancelled; then it drains."""

    def __init__(
        self, adapter: AgentAdapter, store: Path, places: Places = HERE, *, drain_s: float = 10.0, alert: Raise = lambda _: None
    ) -> None:
        """`drain_s`: seconds that work in hand may take at the end.

        Raises Misconfigured for a name or filters that cannot be, or methods that could not be called.
        """
        check_adapter(adapter)
        self.tally = Tally()
        self._adapter = adapter
        self._path = store
        self._places = places
        self._drain_s = drain_s
        self._told = Told(self.tally, alert)
        self._posts = posts_of(adapter, places)
        self._work: Work | None = None
        self._lanes: Lanes | None = None

    @property
    def duplicates(self) -> int:
        """Messages of this life that were applied before."""
        return self._work.duplicates if self._work is not None else 0

    @property
    def store_bytes(self) -> int:
        """What the store takes on the disk, its journal included; it keeps each key that it was ever told."""
        return sum(file.stat().st_size for name in ("", "-wal") if (file := Path(f"{self._path}{name}")).exists())

    @property
    def helpers(self) -> Sequence[Helper]:
        """Children that the agent can do without for a while."""
        return self._lanes.helpers if self._lanes is not None else ()

    @property
    def durables(self) -> tuple[str, ...]:
        return tuple(post.durable for post in self._posts)

    async def run(self, jetstream: JetStream, on_ready: Callable[[], None] = lambda: None, *beside: Child) -> None:
        """`beside`: children that live as long as the agent.

        Raises Misconfigured (a second process, another's durable, overlapping filters), StoreFailed, BrokerUnavailable.
        """
        thread = StoreThread()
        try:
            database = await thread.run(Database, self._path)
            try:
                await self._run(database, thread, jetstream, on_ready, beside)
            finally:
                await thread.close()  # what it is at work on is done first
                database.close()
        finally:
            await thread.close()

    async def _run(
        self, database: Database, thread: StoreThread, jetstream: JetStream, on_ready: Callable[[], None], beside: Sequence[Child]
    ) -> None:
        work = self._work = Work(self._adapter, database, thread, self._places, max_payload=jetstream.connection.max_payload)
        there = await prepare(jetstream, self._posts, self._places, database.id)
        await work.resume(jetstream)
        on_ready()
        lanes = self._lanes = Lanes(self._adapter.name, jetstream, there, self._places, work=work, told=self._told, drain_s=self._drain_s)
        await supervise(lanes.tree(self._posts, *beside))
