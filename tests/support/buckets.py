"""A bucket of a test's own, a plain client that writes into it, and a mirror that records its
callbacks.
"""

import contextlib
from collections.abc import AsyncIterator, Mapping

from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.mirror import BucketMirror, skip_seeding
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.shared_info import SharedInfo
from router.delivery.wire.topology import Topology, bucket, create
from tests.support.beside import beside
from tests.support.delivery import connected
from tests.support.patient_client import PATIENCE_S
from tests.support.waiting import until


class Bucket:
    """A bucket with history, and documents in it."""

    def __init__(self, connection: Connection, name: str) -> None:
        self.jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        self.name = name
        self.documents = DocumentBucket(self.jetstream, name)

    async def make(self) -> None:
        await create(self.jetstream, Topology((bucket(self.name, history=64),)))

    async def unmake(self) -> None:
        await self.jetstream.ask(f"STREAM.DELETE.KV_{self.name}")

    async def write(self, key: str, value: bytes) -> None:
        """Overwrite the key without looking at its revision, as a plain client can."""
        await self.jetstream.publish(f"$KV.{self.name}.{key}", value, {})


@contextlib.asynccontextmanager
async def a_bucket(url: str, name: str) -> AsyncIterator[Bucket]:
    async with connected(url) as connection:
        made = Bucket(connection, name)
        await made.make()
        yield made


class Mirror:
    """A running `BucketMirror` on a connection of its own, as an instance has it."""

    def __init__(
        self, connection: Connection, name: str, again_s: float, *, has_infos: bool
    ) -> None:
        self.told: list[dict[str, bytes]] = []
        jetstream = JetStream(connection, timeout_s=PATIENCE_S)
        self.infos = SharedInfo(jetstream) if has_infos else None
        self.watched = BucketMirror(
            jetstream,
            name,
            self._changed,
            on_replaced=skip_seeding,
            again_s=again_s,
            infos=self.infos,
        )

    def _changed(self, entries: Mapping[str, BucketEntry]) -> None:
        self.told.append({key: entry.value for key, entry in entries.items()})

    @property
    def now(self) -> dict[str, bytes] | None:
        return self.told[-1] if self.told else None

    async def shows(self, wanted: dict[str, bytes], *, within_s: float = 10.0) -> None:
        await until(
            lambda: self.now == wanted,
            within_s=within_s,
            what=f"{wanted}, told {self.told[-3:]}, {self.watched.check}",
        )


@contextlib.asynccontextmanager
async def a_mirror(
    url: str, name: str, *, again_s: float = 60.0, has_infos: bool = False
) -> AsyncIterator[Mirror]:
    """`has_infos`: its watcher's heartbeats are rare, and the test asks for the bucket's info in
    the monitor's place.
    """
    async with connected(url) as connection:
        mirror = Mirror(connection, name, again_s, has_infos=has_infos)
        async with beside(mirror.watched.run()):
            yield mirror
