"""Policies as operators write them, on a real bucket: checked, versioned, and never over a version
that the writer has not seen.
"""

import json
from collections.abc import AsyncIterator

import pytest

from router.core.ids import key
from router.policies.model import PolicyError
from router.policies.store import PolicyNotFound
from tests.support.policy_buckets import PolicyBucket, a_policy_bucket, a_policy_of

ACME = ("acme", "default")


@pytest.fixture
async def store(nats_url: str, prefix: str) -> AsyncIterator[PolicyBucket]:
    async with a_policy_bucket(nats_url, prefix) as place:
        yield place


async def _put(store: PolicyBucket, provider: str, replaces: int = 0, author: str = "ann") -> int:
    return await store.put(*ACME, a_policy_of(provider), replaces=replaces, author=author)


async def test_the_hash_is_of_what_a_document_says_and_not_of_how(store: PolicyBucket) -> None:
    one = {
        "version": "1.0",
        "providers": [{"name": "a", "weight": 70}, {"name": "b", "weight": 30}],
    }
    other = {"weights": {"b": 30, "a": 70}, "providers": ["a", "b"], "version": "1.0"}
    for name, document in (("one", one), ("other", other)):
        await store.put("acme", name, json.dumps(document).encode(), replaces=0, author="ann")
    assert len({stored.record.hash for stored in await store.list()}) == 1


@pytest.mark.parametrize(
    ("document", "path"),
    [
        (b'{"providers": [{"name": "a", "weight": -1}]}', "providers[0].weight"),
        (b'{"providers": [{"name": "a", "weight": 1}], "zz": 1}', "zz"),
        (b'{"providers": [', "policy"),
        (b"[" * 2000 + b"]" * 2000, "policy"),
        (b'{"metadata": "' + b"x" * (1 << 20) + b'"}', "policy"),
        (a_policy_of("a", tenant_id="other"), "tenant_id"),
        # legal to read, and refuses every request
        (a_policy_of("a", pre=[{"id": f"e-{n}"} for n in range(6)]), "pipeline"),
    ],
)
async def test_a_bad_document_is_refused_with_its_path_and_nothing_changes(
    store: PolicyBucket, document: bytes, path: str
) -> None:
    await _put(store, "a")
    with pytest.raises(PolicyError) as refused:
        await store.put(*ACME, document, replaces=1, author="bob")
    assert path in [where for where, _ in refused.value.errors]
    assert len(await store.history(*ACME)) == 1


@pytest.mark.parametrize(
    ("tenant", "name"),
    [("", "a"), ("..", "a"), ("a", "*"), ("a", "_shared"), ("_other", "a"), ("a b", "c")],
)
async def test_a_name_that_is_no_id_reaches_nothing(
    store: PolicyBucket, tenant: str, name: str
) -> None:
    put = store.put(tenant, name, a_policy_of("a"), replaces=0, author="ann")
    for work in (put, store.get(tenant, name), store.delete(tenant, name)):
        with pytest.raises(PolicyError):
            await work


@pytest.mark.parametrize("author", ["", "a\nb", "x" * 129])
async def test_an_author_is_printable(store: PolicyBucket, author: str) -> None:
    with pytest.raises(PolicyError, match="author"):
        await _put(store, "a", author=author)


async def test_rollback_writes_what_was_as_a_new_version_after_a_deletion_too(
    store: PolicyBucket,
) -> None:
    await _put(store, "a")
    await _put(store, "b", 1)
    assert await store.rollback(*ACME, 1, author="bob") == 3
    await store.delete(*ACME)
    assert await store.rollback(*ACME, 2, author="bob") == 4
    documents = [
        (await store.get(*ACME, version=version)).record.document for version in (1, 2, 3, 4)
    ]
    assert documents[:2] == documents[2:]


async def test_tenants_are_listed_apart(store: PolicyBucket) -> None:
    """Story 9. Names with dots are not taken for each other."""
    for tenant, name in (("a.b", "c"), ("a", "b.c"), ("_shared", "c")):
        await store.put(tenant, name, a_policy_of("x"), replaces=0, author="ann")
    assert [(one.tenant_id, one.policy_id) for one in await store.list("a")] == [("a", "b.c")]
    assert [(one.tenant_id, one.policy_id) for one in await store.list()] == [
        ("_shared", "c"),
        ("a", "b.c"),
        ("a.b", "c"),
    ]
    with pytest.raises(PolicyNotFound):
        await store.history("a", "c")


async def test_what_another_client_wrote_is_no_policy_and_can_be_deleted(
    store: PolicyBucket,
) -> None:
    await store.bucket.write(key(*ACME), b'{"providers": []}')
    await store.bucket.write("what.ever.this.is", b"x")
    assert await store.list() == []
    with pytest.raises(PolicyNotFound):
        await store.get(*ACME)
    assert await store.delete(*ACME) == 0
    assert await _put(store, "a") == 1
