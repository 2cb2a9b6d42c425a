"""A usage stream on a real server, filled by a test and read by the lake's source."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema

from router.delivery.wire.api import JetStream
from router.lake.source.broker import read_facts
from router.lake.source.fetch import read_record_batches
from router.lake.source.offset import SequenceRange
from router.lake.source.options import SourceOptions, read_options
from router.lake.source.rows import MESSAGE_SCHEMA
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.made_anew import create_stream
from tests.support.patient_client import PATIENCE_S
from tests.support.waiting import until

T = TypeVar("T")

ARROW = to_arrow_schema(MESSAGE_SCHEMA, timezone="UTC")
STREAM = "EVENTS"


class Feed:
    """One stream on a broker; `url` may carry a login."""

    def __init__(self, url: str, stream: str = STREAM, **connection: Any) -> None:
        self.url = url
        self.stream = stream
        self._connection = connection

    def create(self, **config: Any) -> "Feed":
        declared = {
            "subjects": [f"{self.stream}.>"],
            "storage": "file",
            "allow_direct": True,
            **config,
        }
        self._do(lambda jetstream: create_stream(jetstream, self.stream, declared))
        return self

    def put(self, bodies: Iterable[bytes], *, subject: str = "one", head: bytes = b"") -> "Feed":
        """Store a few thousand at most: the server drops what stands 10 000 deep."""

        async def all_of_them(jetstream: JetStream) -> None:
            last = (await self._info(jetstream))["state"]["last_seq"]
            for body in bodies:
                jetstream.connection.publish_nowait(f"{self.stream}.{subject}", body, "", head)
                last += 1

            async def stored() -> bool:
                return bool((await self._info(jetstream))["state"]["last_seq"] >= last)

            await until(stored)

        self._do(all_of_them)
        return self

    def count(self, messages: int, *, subject: str = "one") -> "Feed":
        """Messages with a number each, from 0."""
        return self.put((b"%d" % number for number in range(messages)), subject=subject)

    def put_odd(self, subject: bytes) -> None:
        """An empty message on a subject that no client would let pass."""
        host, port = self.url.removeprefix("nats://").split(":")
        with socket.create_connection((host, int(port))) as wire:
            wire.sendall(
                b'CONNECT {"verbose":false}\r\nPUB %s.%s 0\r\n\r\nPING\r\n'
                % (self.stream.encode(), subject)
            )
            while b"PONG" not in wire.recv(4096):
                pass
        while not self.messages():
            pass

    def delete(self, *sequences: int) -> None:
        async def one_by_one(jetstream: JetStream) -> None:
            for sequence in sequences:
                await jetstream.ask(f"STREAM.MSG.DELETE.{self.stream}", {"seq": sequence})

        self._do(one_by_one)

    def purge(self, before: int | None = None) -> None:
        """Everything, or what is below a sequence."""
        self._do(
            lambda jetstream: jetstream.ask(
                f"STREAM.PURGE.{self.stream}", {"seq": before} if before else None
            )
        )

    def create_anew(self) -> "Feed":
        self._do(lambda jetstream: jetstream.ask(f"STREAM.DELETE.{self.stream}"))
        return self.create()

    def consumers(self) -> list[str]:
        names: list[str] = (
            self._do(lambda jetstream: jetstream.ask(f"CONSUMER.NAMES.{self.stream}"))["consumers"]
            or []
        )
        return names

    def drop_consumers(self) -> None:
        for name in self.consumers():
            self._do(
                lambda jetstream, name=name: jetstream.ask(f"CONSUMER.DELETE.{self.stream}.{name}")
            )  # type: ignore[misc]

    def messages(self) -> int:
        count: int = self._do(self._info)["state"]["messages"]
        return count

    async def _info(self, jetstream: JetStream) -> Any:
        return await jetstream.stream(self.stream)

    def _do(self, work: Callable[[JetStream], Awaitable[T]]) -> T:
        async def do() -> T:
            async with connected(self.url, **self._connection) as connection:
                return await work(JetStream(connection, timeout_s=PATIENCE_S))

        return asyncio.run(do())

    # -- read --------------------------------------------------------------------------------------

    def options(self, **given: str) -> SourceOptions:
        return read_options({"url": self.url, "stream": self.stream, "timeoutMs": "10000", **given})

    def batches(self, start: int, end: int, **given: str) -> Iterator[pa.RecordBatch]:
        """Record batches of the sequences from `start` up to and without `end`."""
        options = self.options(**given)
        return read_record_batches(
            options, SequenceRange(start, end, read_facts(options).created), ARROW
        )

    def rows(self, start: int, end: int, **given: str) -> list[dict[str, Any]]:
        return [row for batch in self.batches(start, end, **given) for row in batch.to_pylist()]

    def sequences(self, start: int, end: int, **given: str) -> list[int]:
        return [row["seq"] for row in self.rows(start, end, **given)]


def seqs(batches: Iterable[pa.RecordBatch]) -> list[int]:
    return [sequence for batch in batches for sequence in batch.column("seq").to_pylist()]


@contextmanager
def a_feed(*extra: str, **config: Any) -> Iterator[tuple[Broker, Feed]]:
    """A broker of one's own, to be killed and paused."""
    with Broker(*extra) as broker:
        yield broker, Feed(broker.url).create(**config)


def in_small_steps(monkeypatch: pytest.MonkeyPatch, rows: int = 100) -> None:
    """Record batches and pulls of a few messages, so that a short range has a middle."""
    monkeypatch.setattr("router.lake.source.fetch.ROWS_A_BATCH", rows)
    monkeypatch.setattr("router.lake.source.fetch.MESSAGES_IN_FLIGHT", rows)
