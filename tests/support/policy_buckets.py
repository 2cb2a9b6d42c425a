"""A store of policies in a bucket of a test's own, and a plain client that writes past the store."""

import contextlib
import itertools
import json
from collections.abc import AsyncIterator

from router.config import Settings
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.policies.followed import FollowedPolicies
from router.policies.model import PolicyTable
from router.policies.store import PolicyStore
from tests.support.buckets import Bucket, a_bucket
from tests.support.delivery import connected
from tests.support.patient_client import PATIENCE_S

_NUMBERS = itertools.count(1)


def a_policy_of(provider: str, **sections: object) -> bytes:
    """A document that always chooses this provider."""
    return json.dumps(
        {"version": "1.0", "providers": [{"name": provider, "weight": 1}], **sections}
    ).encode()


class PolicyBucket(PolicyStore):
    """A store, its bucket, and routers' policy tables over it."""

    def __init__(self, bucket: Bucket) -> None:
        super().__init__(bucket.documents)
        self.bucket = bucket

    def a_policy_table(self) -> tuple[PolicyTable, FollowedPolicies]:
        table = PolicyTable()
        return table, FollowedPolicies(self.bucket.jetstream, self.bucket.name, table)


@contextlib.asynccontextmanager
async def a_policy_bucket(url: str, name: str) -> AsyncIterator[PolicyBucket]:
    # a test's prefix is cut short where it has parameters
    async with a_bucket(url, f"{name}_{next(_NUMBERS)}") as bucket:
        yield PolicyBucket(bucket)


@contextlib.asynccontextmanager
async def store_of(settings: Settings) -> AsyncIterator[PolicyStore]:
    """An operator's store, on a connection of its own, over a router's bucket."""
    async with connected(settings.nats.url[0]) as connection:
        yield PolicyStore(
            DocumentBucket(
                JetStream(connection, timeout_s=PATIENCE_S), settings.buckets.policies.name
            )
        )
