"""The page of keys: by tenant, without hash or secret; and keys that are revoked there."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from router.config import Settings
from router.core.clock import now_ms
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.gateway.keys.model.api_key import MadeKey, make_key
from router.gateway.keys.store import KeyStore
from router.operate.audit import AuditReader
from tests.support.console import Console, a_console
from tests.support.console_login import PASSWORD, Browser, write_users, writing
from tests.support.waiting import until


@pytest.fixture
def store(settings: Settings, jetstream: JetStream) -> KeyStore:
    return KeyStore(DocumentBucket(jetstream, settings.buckets.keys.name))


@asynccontextmanager
async def a_connected_console(settings: Settings) -> AsyncIterator[Console]:
    async with a_console(settings) as console:
        await until(lambda: console.server.link.workers_cause == "", what="it is connected")
        yield console


async def store_keys(store: KeyStore) -> list[MadeKey]:
    made = [make_key(tenant, now_ms(), name=f"of {tenant}") for tenant in ("acme", "beta", "acme")]
    for one in made:
        await store.put(one.key, author="ann", replaces=0)
    return made


async def test_keys_are_listed_by_tenant_without_hash_or_secret(
    settings: Settings, store: KeyStore
) -> None:
    made = await store_keys(store)
    async with a_connected_console(settings) as console:
        page = await console.read("/keys")
        rows = await console.export("/keys?tenant=beta")
    assert all(one.key.key_id in page for one in made)
    assert not any(
        one.key.secret_sha256 in page or one.text[16:] in page or one.key.secret_sha256 in str(rows)
        for one in made
    )
    assert [(row["tenant"], row["name"], row["state"]) for row in rows] == [
        ("beta", "of beta", "active")
    ]
    assert "router key list" in page


async def test_chosen_keys_are_revoked_and_each_leaves_an_event(
    settings: Settings, store: KeyStore, jetstream: JetStream
) -> None:
    made = await store_keys(store)
    gone = [made[0].key.key_id, made[1].key.key_id]
    async with a_connected_console(writing(settings.nats.url[0])) as console:
        browser = Browser(console)
        await browser.log_in()
        nothing = await browser.submit("/keys", "/keys/revoke", {})
        await browser.submit("/keys", "/keys/revoke", {"key": gone, "note": "it leaked"})
        assert f"{gone[1]} is revoked" in await browser.read("/keys")
        await browser.submit("/keys", "/keys/revoke", {"key": made[2].text, "back": "/keys"})
        page = await browser.read("/keys")
    assert (nothing.status_code, "Nothing was done" in page) == (400, True)
    assert made[2].text[16:] not in page
    assert [one.key.key_id for one in await store.list()] == [made[2].key.key_id]
    events = [one.event async for one in AuditReader(jetstream, settings.streams.audit.name).read()]
    assert [(one.command, one.target, one.tenant_id, one.note, one.via) for one in events] == [
        ("key revoke", gone[0], "acme", "it leaked", "console"),
        ("key revoke", gone[1], "beta", "it leaked", "console"),
    ]


async def test_who_is_limited_to_a_tenant_sees_and_revokes_its_keys_alone(
    settings: Settings, store: KeyStore, tmp_path: Path
) -> None:
    made = await store_keys(store)
    mine, other = made[0].key.key_id, made[1].key.key_id
    users = write_users(tmp_path / "users", limited="acme")
    async with a_connected_console(writing(settings.nats.url[0], console__users=users)) as console:
        browser = Browser(console)
        await browser.log_in("limited", PASSWORD)
        page = await browser.read("/keys?tenant=beta")
        refused = [
            (await browser.submit("/keys", "/keys/revoke", {"key": chosen})).status_code
            for chosen in ([mine, other], [other], ["0" * 12])
        ]
        done = await browser.submit("/keys", "/keys/revoke", {"key": mine})
    assert (mine in page, other in page) == (True, False)
    assert (refused, done.status_code) == ([404, 404, 404], 303)
    assert {one.key.key_id for one in await store.list()} == {other, made[2].key.key_id}
