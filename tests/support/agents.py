"""Agents at work: on a bare store, in this process, or in one that is killed; and what they applied
and sent.
"""

import asyncio
import contextlib
import json
import sqlite3
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from nats.aio.client import Client

from router.agents.agent import AgentRuntime
from router.agents.batch import BatchProcessor
from router.agents.database import StoreFile
from router.agents.outgoing import OutputRules, PublishAckBuffer
from router.agents.store import Store
from router.agents.topology import AgentTopology
from router.contracts.alert import Alert
from router.core.message import Message
from router.delivery.wire.api import JetStream
from tests.support.counting_agent import COUNTED, SUBJECT, CountingAgent
from tests.support.delivery import connected
from tests.support.kills import KilledProcess

STORED_NS = 1_700_000_000_000_000_000
BATCH_POINTS = (
    "agent_received",
    "agent_deduplicated",
    "agent_persisted",
    "agent_applying",
    "agent_applied",
)


def a_command(key: str = "k-1", **payload: object) -> bytes:
    """One message's body for the witness."""
    return json.dumps({"idempotency_key": key, "type": "count", "payload": payload}).encode()


def a_message(
    sequence: int = 1,
    key: str | None = None,
    *,
    deliveries: int = 1,
    body: bytes | None = None,
    **facts: Any,
) -> Message:
    """A delivery of it."""
    headers: Mapping[str, str] = facts.pop("headers", {})
    data = body if body is not None else a_command(key or f"k-{sequence}", **facts)
    return Message(
        SUBJECT,
        data,
        headers,
        "MESHFORGE_COMMANDS",
        "witness_consumer",
        sequence,
        STORED_NS + sequence,
        deliveries,
        f"t{sequence}",
    )


class BatchBench:
    """A batch on a real store, with no broker around it; `reopen` is a restart."""

    def __init__(self, path: Path, adapter: Any = None, *, limit: int = 5) -> None:
        self.path = path
        self.adapter = adapter or CountingAgent()
        self.limit = limit
        self.buried: list[int] = []
        self.open()

    def open(self) -> None:
        self.database = StoreFile(self.path)
        self.store = Store(self.database, self.adapter.name)
        self.publish_acks = PublishAckBuffer()
        self.batch = BatchProcessor(
            self.adapter,
            self.store,
            self.publish_acks,
            limit=self.limit,
            rules=OutputRules(AgentTopology().is_bound),
            mark_dead=lambda place: _bury(self, place),
        )

    def close(self) -> None:
        self.database.close()

    def reopen(self) -> "BatchBench":
        self.close()
        self.open()
        return self

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        return self.database.connection.execute(query).fetchall()

    def statuses(self) -> dict[str, str]:
        return dict(self.rows("SELECT idempotency_key, status FROM events"))

    def times(self, key: str) -> int:
        """How often a message's effect is in the file's state."""
        row = self.database.connection.execute(
            "SELECT value FROM memory WHERE name = ?", (key,)
        ).fetchone()
        return int(row[0]) if row else 0


def _bury(bench: BatchBench, place: int) -> Any:
    async def commit(_: object) -> None:
        bench.buried.append(place)
        with bench.store.transaction():
            bench.store.mark_dead([place])

    return commit


@contextlib.contextmanager
def a_batch_bench(path: Path, adapter: Any = None, *, limit: int = 5) -> Any:
    bench = BatchBench(path, adapter, limit=limit)
    try:
        yield bench
    finally:
        bench.close()


class Running:
    """An agent at work in this process."""

    def __init__(
        self, runtime: AgentRuntime, work: "asyncio.Task[None]", alerts: list[Alert]
    ) -> None:
        self.runtime, self.stats = runtime, runtime.stats
        self.work = work
        self._alerts = alerts

    @property
    def causes(self) -> set[str]:
        """Of the alerts that were raised."""
        return {alert.cause for alert in self._alerts}


@contextlib.asynccontextmanager
async def an_agent(
    url: str, store: Path, adapter: Any = None, *, drain_s: float = 2.0, **places: Any
) -> AsyncIterator[Running]:
    """Ready when this is entered; drained when it is left. What ended it early is raised."""
    alerts: list[Alert] = []
    where = AgentTopology(**{"ack_wait": 0.5, "sweep": 0.5, **places})
    runtime = AgentRuntime(
        adapter or CountingAgent(), store, where, drain_s=drain_s, alert=alerts.append
    )
    async with connected(url) as connection:
        ready = asyncio.Event()
        work = asyncio.create_task(runtime.run(JetStream(connection), ready.set))
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
            if work.done():
                await work
            yield Running(runtime, work, alerts)
        finally:
            waiting.cancel()
            work.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await work


class AgentProcess(KilledProcess):
    """The witness as a child process that is told where to die."""

    command = ("tests.support.counting_agent",)
    announces = "agent.ready"

    def __init__(self, url: str, max_deliver: int = AgentTopology().max_deliver) -> None:
        super().__init__({"nats.url": url})
        self._max_deliver = max_deliver
        self.home = Path(tempfile.mkdtemp(prefix="router-agent-"))
        self.store = self.home / "witness.db"

    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _arguments(self) -> Sequence[str]:
        return (*self.command, "--store", str(self.store), "--max-deliver", str(self._max_deliver))


async def publish_commands(nc: Client, numbers: Iterable[int]) -> None:
    js = nc.jetstream()
    await asyncio.gather(
        *(publish_until_stored(js, a_command(f"k-{number}")) for number in numbers)
    )


async def publish_until_stored(
    js: Any, body: bytes, subject: str = SUBJECT, headers: dict[str, str] | None = None
) -> None:
    """Publish until a stream takes it: the agent that makes the stream may not have begun."""
    while True:
        try:
            await js.publish(subject, body, headers=headers, timeout=10)
        except Exception:
            await asyncio.sleep(0.02)
        else:
            return


async def is_empty(jetstream: JetStream, stream: str = "MESHFORGE_COMMANDS") -> bool:
    """Whether a work queue's every message is settled."""
    info = await jetstream.stream(stream)
    return info is not None and info["state"]["messages"] == 0


async def read_sent(
    jetstream: JetStream, subject: str = COUNTED, stream: str = "MESHFORGE_EVENTS"
) -> list[dict[str, Any]]:
    """Every envelope that stands on a subject."""
    bodies, sequence = [], 0
    while (message := await jetstream.get_next(stream, subject, sequence + 1)) is not None:
        sequence = message.sequence
        bodies.append(json.loads(message.data))
    return bodies


def count_applied(store: Path) -> Counter[str]:
    """How often each message's effect stands in the witness' state."""
    with contextlib.closing(sqlite3.connect(store)) as db:
        return Counter(
            {
                name: int(value)
                for name, value in db.execute("SELECT name, CAST(value AS TEXT) FROM memory")
            }
        )


def count_unsent(store: Path) -> int:
    with contextlib.closing(sqlite3.connect(store)) as db:
        return int(
            db.execute("SELECT count(*) FROM outgoing WHERE stored_seq IS NULL").fetchone()[0]
        )
