"""The audit event of a write: what stood before it, what it wrote, and none of a write that was
refused.
"""

from collections.abc import AsyncIterator

import pytest

from router.core.errors import BrokerUnavailable, Conflict
from router.policies.store import AuditedPolicies, PolicyNotFound, PolicyStore, StoredPolicy
from tests.support.audit import KeptTrail
from tests.support.policy_buckets import PolicyBucket, a_policy_bucket, a_policy_of


@pytest.fixture
async def store(nats_url: str, prefix: str) -> AsyncIterator[PolicyBucket]:
    async with a_policy_bucket(nats_url, prefix) as found:
        yield found


class ReadOnce(PolicyStore):
    """A store whose broker goes away after a write: what stands before it was read."""

    reads = 0

    async def find(self, *name: str) -> StoredPolicy | None:
        self.reads += 1
        if self.reads > 1:
            raise BrokerUnavailable("the broker is away")
        return await super().find(*name)


class OvertakenStore(PolicyStore):
    """A store over whose write another operator writes at once."""

    async def put(
        self, tenant_id: str, policy_id: str, document: bytes, *, replaces: int | None, author: str
    ) -> int:
        version = await super().put(
            tenant_id, policy_id, document, replaces=replaces, author=author
        )
        other = a_policy_of("other")
        await super().put(tenant_id, policy_id, other, replaces=version, author="bob")
        return version


async def put(policies: AuditedPolicies, provider: str, replaces: int) -> int:
    return await policies.put(
        "acme", "default", a_policy_of(provider), replaces=replaces, author="ann", note="why"
    )


async def test_an_event_has_what_stood_before_and_what_was_written(store: PolicyBucket) -> None:
    trail = KeptTrail()
    policies = AuditedPolicies(store, trail)
    await put(policies, "a", 0)
    first = await store.get("acme", "default")
    await put(policies, "b", 1)
    second = await store.get("acme", "default")
    await policies.delete("acme", "default")
    values = [{"version": one.record.version, "hash": one.record.hash} for one in (first, second)]
    assert [
        (one.command, one.target, one.tenant_id, one.before, one.after, one.note)
        for one in trail.events
    ] == [
        ("policy put", "acme/default", "acme", None, values[0], "why"),
        ("policy put", "acme/default", "acme", values[0], values[1], "why"),
        ("policy delete", "acme/default", "acme", values[1], None, None),
    ]


async def test_a_write_that_is_refused_leaves_no_event(store: PolicyBucket) -> None:
    trail = KeptTrail()
    policies = AuditedPolicies(store, trail)
    await put(policies, "a", 0)
    with pytest.raises(Conflict):
        await put(policies, "b", 7)
    with pytest.raises(PolicyNotFound):
        await policies.delete("acme", "other")
    assert len(trail.events) == 1


async def test_of_a_write_that_another_one_replaced_the_version_alone_is_known(
    store: PolicyBucket,
) -> None:
    trail = KeptTrail()
    assert await put(AuditedPolicies(OvertakenStore(store.bucket.documents), trail), "a", 0) == 1
    assert [one.after for one in trail.events] == [{"version": 1}]


async def test_a_write_leaves_its_event_when_what_it_wrote_cannot_be_read_again(
    store: PolicyBucket,
) -> None:
    """It was told as failed, and left no event, though it stood."""
    trail = KeptTrail()
    assert await put(AuditedPolicies(ReadOnce(store.bucket.documents), trail), "a", 0) == 1
    assert [one.after for one in trail.events] == [{"version": 1}]
