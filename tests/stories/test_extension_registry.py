"""The registry at run time: registered, switched and removed while routers run; a broken entry, a
bucket and a broker that go away.
"""

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from nats.aio.client import Client

from router.config import Settings
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.extensions.model import ExtensionRegistry
from router.extensions.store import ExtensionStore
from tests.support.broker import Broker
from tests.support.delivery import connected
from tests.support.registry import an_entry
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import make_topology, read_page
from tests.support.waiting import until

AT_ONCE_S = 1.0
BACK_S = 2.0  # from a reconnect to the truth


@asynccontextmanager
async def an_operator(settings: Settings) -> AsyncIterator[ExtensionStore]:
    """Another client that writes entries: the command line, the admin service."""
    async with connected(settings.nats.url[0]) as connection:
        yield ExtensionStore(
            DocumentBucket(JetStream(connection), settings.buckets.extensions.name)
        )


def registry(router: Running) -> ExtensionRegistry:
    context = router.service._context
    assert context is not None
    return context.registry


def is_found(router: Running, extension_id: str = "guard") -> bool:
    return (
        registry(router).find(extension_id, kind="validator", tenant_id="acme", policy_id="default")
        is not None
    )


async def soon(condition: Callable[[], object], within_s: float = AT_ONCE_S) -> None:
    await until(condition, within_s=within_s)


async def told(router: Running) -> tuple[int, str]:
    """The status of /readyz, and what it says of the registry."""
    status, text = await read_page(router.ready.http, "/readyz")
    return status, json.loads(text)["checks"]["extensions"]["detail"]


async def test_what_is_registered_switched_and_removed_is_in_force_in_every_instance_at_once(
    settings: Settings,
) -> None:
    async with (
        a_router(settings) as one,
        a_router(settings) as other,
        an_operator(settings) as store,
    ):
        await store.put(an_entry(), author="ann")
        await soon(lambda: is_found(one) and is_found(other))
        await store.switch("guard", enabled=False, author="ann")
        await soon(lambda: not is_found(one) and not is_found(other))
        await store.switch("guard", enabled=True, author="ann")
        await soon(lambda: is_found(one) and is_found(other))
        await store.delete("guard")
        await soon(lambda: not is_found(one) and not is_found(other))


async def test_a_seed_is_in_force_before_the_first_request_and_a_bad_file_keeps_no_router_from_starting(
    nats_url: str, prefix: str, tmp_path: Path
) -> None:
    (tmp_path / "guard.json").write_text(json.dumps(an_entry()))
    (tmp_path / "worse.json").write_text(json.dumps(an_entry("worse", retry=9)))
    async with a_router(settings_for(nats_url, prefix, extensions__dir=str(tmp_path))) as router:
        assert is_found(router)
        assert not is_found(router, "worse")


async def test_what_another_client_wrote_leaves_the_last_good_entry_and_readiness_tells(
    nc: Client, settings: Settings
) -> None:
    """Story 5, for those who write past the checks."""
    async with a_router(settings) as router, an_operator(settings) as store:
        await store.put(an_entry(), author="ann")
        await soon(lambda: is_found(router))
        bucket = await nc.jetstream().key_value(settings.buckets.extensions.name)
        await bucket.put(
            "guard", b'{"id": "guard", "type": "validator", "subject": "$SYS.REQ.ACCOUNT.PURGE"}'
        )
        # once this one is in force, the other has been read
        await bucket.put("beacon", json.dumps(an_entry("beacon")).encode())
        await soon(lambda: is_found(router, "beacon"))
        assert is_found(router)
        status, detail = await told(router)
        assert (status, "; cannot be read: guard: " in detail) == (200, True)


async def test_without_its_bucket_the_last_known_state_serves_and_readiness_says_so(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 7: the bucket is deleted under a running router, and made again with another entry in
    it.
    """
    await make_topology(settings_for(nats_url, prefix))
    # else the router makes the bucket again
    settings = settings_for(nats_url, prefix, topology="check")
    name = settings.buckets.extensions.name
    async with a_router(settings) as router, an_operator(settings) as store:
        await store.put(an_entry(), author="ann")
        await soon(lambda: is_found(router))
        await nc.jetstream().delete_key_value(name)
        await until(lambda: not router.service.readiness()["extensions"].ok)
        status, detail = await told(router)
        assert (status, "the last known state serves" in detail, is_found(router)) == (
            503,
            True,
            True,
        )

        await nc.jetstream().create_key_value(bucket=name, history=64)
        await store.put(an_entry("other"), author="ann")
        await until(lambda: is_found(router, "other") and not is_found(router))
        await until(lambda: router.service.readiness()["extensions"].ok)


async def test_what_was_registered_while_it_was_cut_off_is_in_force_soon_after_the_reconnect(
    broker: Broker, prefix: str
) -> None:
    """Story 8 for extensions: nats-server killed and restarted, an entry put meanwhile by another
    client.
    """
    settings = settings_for(broker.url, prefix)
    async with a_router(settings) as router:
        async with an_operator(settings) as store:
            await store.put(an_entry(), author="ann")
            await soon(lambda: is_found(router))
        broker.kill()
        await until(lambda: not router.service.readiness()["broker"].ok)
        assert is_found(router)
        broker.start()
        # a new client is there before the router tries again
        async with an_operator(settings) as store:
            await store.put(an_entry("meanwhile"), author="ann")
            await until(lambda: router.service.readiness()["broker"].ok)
            await soon(lambda: is_found(router, "meanwhile"), within_s=BACK_S)
        assert is_found(router)
