"""Processed keys in a key-value bucket, shared by all processes of a durable. Each key is created
once; the bucket's TTL removes it.
"""

from __future__ import annotations

from router.bus.processed.port import StoreUnavailable, Write, refuse_to_write
from router.core.errors import BrokerRefused
from router.core.ids import bucket_prefix
from router.core.ids import key as key_of
from router.delivery.wire.api import WRONG_LAST_SEQUENCE, JetStream
from router.delivery.wire.topology import Topology, bucket, create

CREATE = {"Nats-Expected-Last-Subject-Sequence": "0"}


class BucketProcessed:
    """`ttl_s`: how long a key is kept, at least as long as its message may be delivered again."""

    def __init__(
        self,
        jetstream: JetStream,
        bucket_name: str,
        durable: str,
        *,
        ttl_s: float,
        replicas: int = 1,
    ) -> None:
        self._jetstream = jetstream
        self._bucket = bucket_name
        self._durable = durable
        self._ttl_s = ttl_s
        self._replicas = replicas

    async def open(self) -> None:
        await create(
            self._jetstream,
            Topology((bucket(self._bucket, ttl=self._ttl_s, replicas=self._replicas),)),
        )

    async def close(self) -> None: ...

    async def has(self, key: str) -> bool:
        return await self._jetstream.get_last(f"KV_{self._bucket}", self._subject(key)) is not None

    async def mark(self, key: str, write: Write | None = None) -> bool:
        refuse_to_write(write)
        try:
            await self._jetstream.publish(
                self._jetstream.write_subject(self._subject(key)), b"1", CREATE
            )
        except BrokerRefused as exc:
            if exc.err_code in WRONG_LAST_SEQUENCE:
                return False
            # no room, for one: the handler has run, and must not again
            raise StoreUnavailable(f"bucket {self._bucket}: {exc}") from exc
        return True

    def _subject(self, key: str) -> str:
        return bucket_prefix(self._bucket) + key_of(self._durable, key)
