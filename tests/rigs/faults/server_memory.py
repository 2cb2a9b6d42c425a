"""What a NATS server keeps in memory of what it stores: `python -m tests.rigs.faults.server_memory
--write bench/results/server_memory.md`.

Plain messages, messages with an id, and keys of a bucket, each into a server of its own, with the
sizes of a usage event and of an assignment's record. Its heap, after a collection, is looked at
when the last one is stored, and when the server has let go of the blocks that it had in memory. Then
keys, while its collector is left alone: what its resident memory grows by.
"""

import argparse
import asyncio
import re
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from bench.machine import facts, list_facts
from bench.outcomes import as_record
from router.config import Settings, load
from router.contracts.usage import USAGE_SUBJECT
from router.delivery.wire import topology
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import head_of
from router.delivery.wire.first_connection import connect
from router.delivery.wire.topology import Topology
from router.operate.topology.declared_topology import declare_topology
from tests.support.broker import Broker
from tests.support.ports import free_port
from tests.support.result_pages import format_table

EVENT = b"u" * 400
RECORD = as_record(1)[1]
# a block that is not read or written is dropped after two minutes
IDLE_S = 150.0
AT_ONCE = 1_000
MIB = 1024 * 1024
FACTS = ("date", "commit", "command", "CPU", "memory", "system", "nats-server")
NOTE = """Heap: bytes that are in use after a collection, more than before the first message, divided by the messages. *At once*: blocks of
up to 8 MiB that were written or read in the last two minutes are in it. *Idle*: {idle:.0f} s later they are not, and ids are, whose window
is ten minutes. Resident: the collector is left alone, so that the heap grows to twice what is in use; bytes a key between a fifth of the
keys and all of them, which are stored within two minutes."""


class Kind(NamedTuple):
    """What is stored: where, under which subject and with which headers."""

    name: str
    stream: Callable[[Settings], str]
    subject: Callable[[Settings, int], str]
    body: bytes
    has_id: bool = False


def _known(settings: Settings) -> str:
    return settings.buckets.assignments_known.name


def _usage(settings: Settings) -> str:
    return settings.streams.usage.name


MESSAGE = Kind("a message", _usage, lambda *_: USAGE_SUBJECT, EVENT)
WITH_ID = Kind("a message with an id", _usage, lambda *_: USAGE_SUBJECT, EVENT, has_id=True)
KEY = Kind(
    "a key of a bucket",
    lambda settings: f"KV_{_known(settings)}",
    lambda settings, number: f"$KV.{_known(settings)}.{_id(number)}",
    RECORD,
)


def _id(number: int) -> str:
    return f"5d9c2f7e-8f7b-5c1e-9a39-{number:012d}"


def read_heap(port: int, collecting: str = "") -> dict[str, float]:
    """What a server with a `prof_port` says of its heap; `collecting`: after a collection."""
    url = f"http://127.0.0.1:{port}/debug/pprof/heap?debug=1{collecting}"
    with urllib.request.urlopen(url, timeout=120) as page:
        found = re.findall(rb"^# (\w+) = (\d+)$", page.read(), re.MULTILINE)
    return {name.decode(): float(number) for name, number in found}


class Watched:
    """A server with one stream, and what its memory holds."""

    def __init__(self, broker: Broker, port: int) -> None:
        self._broker = broker
        self._port = port

    @property
    def url(self) -> str:
        return self._broker.url

    async def heap(self) -> float:
        """Bytes in use after a collection."""
        return (await asyncio.to_thread(read_heap, self._port, "&gc=1"))["HeapAlloc"]

    def resident(self) -> float:
        status = Path(f"/proc/{self._broker.pid}/status").read_text()
        found = re.search(r"VmRSS:\s+(\d+)", status)
        assert found is not None
        return float(found[1]) * 1024


@contextmanager
def watched() -> Iterator[Watched]:
    port = free_port()
    with Broker(f"prof_port: {port}") as broker:
        yield Watched(broker, port)


class Store:
    """Stores messages of one kind, a thousand at a time, until they stand there."""

    def __init__(self, jetstream: JetStream, settings: Settings, kind: Kind) -> None:
        self._jetstream = jetstream
        self._settings = settings
        self._kind = kind
        self.stored = 0

    async def make_stream(self) -> None:
        name = self._kind.stream(self._settings)
        specs = [spec for spec in declare_topology(self._settings).streams if spec.name == name]
        await topology.create(self._jetstream, Topology(tuple(specs)))

    async def store(self, count: int) -> None:
        while self.stored < count:
            for _ in range(AT_ONCE):
                self._put(self.stored)
                self.stored += 1
            await self._jetstream.connection.flush()
            await self._holds_all()

    def _put(self, number: int) -> None:
        head = head_of({"Nats-Msg-Id": _id(number)}) if self._kind.has_id else b""
        subject = self._kind.subject(self._settings, number)
        self._jetstream.connection.publish_nowait(subject, self._kind.body, "", head)

    async def _holds_all(self) -> None:
        name = self._kind.stream(self._settings)
        while ((await self._jetstream.stream(name)) or {})["state"]["last_seq"] < self.stored:  # noqa: ASYNC110 - asks the server
            await asyncio.sleep(0.02)


async def weigh(kind: Kind, count: int, idle_s: float) -> tuple[float, float]:
    """Bytes of heap a message: when all are stored, and idle."""
    with watched() as server:
        store = await _open(server, kind)
        before = await server.heap()
        await store.store(count)
        at_once = await server.heap()
        await asyncio.sleep(idle_s)
        return (at_once - before) / count, (await server.heap() - before) / count


async def grow(kind: Kind, count: int) -> float:
    """Resident bytes a message, the collector left alone."""
    with watched() as server:
        store = await _open(server, kind)
        await store.store(count // 5)
        first, resident = store.stored, server.resident()
        await store.store(count)
        return (server.resident() - resident) / (store.stored - first)


async def _open(server: Watched, kind: Kind) -> Store:
    unlimited = {"nats.url": server.url, "streams.usage.max_bytes": -1}
    jetstream = JetStream(await connect({"servers": [server.url]}))
    store = Store(jetstream, load(None, unlimited, {}).settings, kind)
    await store.make_stream()
    return store


async def measure(count: int, keys: int) -> str:
    """The page's tables."""
    kinds = (MESSAGE, WITH_ID, KEY)
    weighed = await asyncio.gather(*(weigh(kind, count, IDLE_S) for kind in kinds))
    rows = [
        (kind.name, len(kind.body), count, f"{at_once:.0f}", f"{idle:.0f}")
        for kind, (at_once, idle) in zip(kinds, weighed, strict=True)
    ]
    heads = ("stored", "bytes of its body", "of them", "heap a message, at once", "heap, idle")
    grown = [(kind.name, keys, f"{await grow(kind, keys):.0f}") for kind in (MESSAGE, KEY)]
    resident = format_table(("stored, and more", "of them", "resident a message"), grown)
    return f"{format_table(heads, rows)}\n{resident}\n{NOTE.format(idle=IDLE_S)}\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.faults.server_memory", description=__doc__
    )
    parser.add_argument(
        "--messages", type=int, default=30_000, help="of each kind, idle in the end"
    )
    parser.add_argument("--keys", type=int, default=500_000, help="while they are stored")
    parser.add_argument("--write", type=Path, help="keep the page in this file")
    told = parser.parse_args()
    machine = facts(
        f"python -m {parser.prog.split()[-1]} --messages {told.messages} --keys {told.keys}"
    )
    known = list_facts({name: machine[name] for name in FACTS})
    table = asyncio.run(measure(told.messages, told.keys))
    page = f"# What a server keeps in memory of what it stores\n\n{known}\n\n{table}"
    print(page)
    if told.write is not None:
        told.write.write_text(page)


if __name__ == "__main__":
    main()
