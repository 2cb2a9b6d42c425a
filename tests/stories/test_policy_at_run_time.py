"""Policies are put, refused, fought over and rolled back while routers decide: every router
follows, and none is restarted.
"""

import asyncio
import itertools
import json
from functools import partial
from pathlib import Path

from nats.aio.client import Client

from router.config import Settings
from tests.support.broker import Broker
from tests.support.cli import CommandResult
from tests.support.cli import router as command
from tests.support.policy_buckets import a_policy_of, store_of
from tests.support.requests import a_body
from tests.support.service import Running, a_router, settings_for
from tests.support.stories import Json, ask, make_topology, read_page
from tests.support.waiting import until

ACME = ("acme", "trial")
IN_FORCE_S = 1.0
_NUMBERS = itertools.count(1)
AFTER_A_RECONNECT_S = 2.0


async def test_a_policy_that_is_put_is_in_force_in_every_instance_within_a_second(
    nc: Client, settings: Settings
) -> None:
    async with a_router(settings) as one, a_router(settings) as other, store_of(settings) as store:
        assert (await _decide(nc, settings))["error"]["code"] == "policy_not_found"
        for version, provider in enumerate(("first", "second", "third"), 1):
            assert (
                await store.put(
                    *ACME, a_policy_of(provider), replaces=version - 1 or None, author="ann"
                )
                == version
            )
            await until(partial(_are_at, version, one, other), within_s=IN_FORCE_S)
            decision = (await _decide(nc, settings))["decision"]
            assert (decision["provider_id"], decision["metadata"]["policy_version"]) == (
                provider,
                str(version),
            )
        await store.rollback(*ACME, 1, author="bob")
        await until(lambda: _version(one) == _version(other) == 4, within_s=IN_FORCE_S)
        assert (await _decide(nc, settings))["decision"]["provider_id"] == "first"
        await store.delete(*ACME)
        await until(lambda: _version(one) is _version(other) is None, within_s=IN_FORCE_S)


async def test_a_bad_policy_is_refused_with_its_path_and_the_old_one_keeps_working(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    """Story 5, by the command line."""
    (tmp_path / "good.json").write_bytes(a_policy_of("good"))
    (tmp_path / "bad.json").write_text(
        '{"version": "1.0", "providers": [{"name": "x", "weight": -1}]}'
    )
    async with a_router(settings) as router:
        put = await _command(settings, tmp_path, "put", *ACME, "good.json", "--author", "ann")
        assert (put.status, put.out) == (0, "acme/trial version 1: in force\n")
        refused = await _command(settings, tmp_path, "put", *ACME, "bad.json", "--replaces", "1")
        assert refused.status == 1
        assert "bad.json: providers[0].weight: -1 is not within 0..100" in refused.err
        late = await _command(settings, tmp_path, "put", *ACME, "good.json")
        assert late.status == 1
        assert "acme/trial is at version 1, by ann" in late.err
        assert _version(router) == 1
        assert (await _decide(nc, settings))["decision"]["provider_id"] == "good"


async def test_of_two_writers_at_once_one_is_in_force_and_the_other_is_told(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    """Story 5."""
    async with a_router(settings) as router, store_of(settings) as store:
        await store.put(*ACME, a_policy_of("first"), replaces=0, author="ann")
        for name in ("left", "right"):
            (tmp_path / f"{name}.json").write_bytes(a_policy_of(name))
        arguments = [
            ("put", *ACME, f"{name}.json", "--replaces", "1", "--author", name)
            for name in ("left", "right")
        ]
        left, right = await asyncio.gather(
            *(_command(settings, tmp_path, *given) for given in arguments)
        )
        assert sorted((left.status, right.status)) == [0, 1]
        winner, loser = ("left", right) if left.status == 0 else ("right", left)
        assert f"is at version 2, by {winner}" in loser.err
        await until(lambda: _version(router) == 2, within_s=IN_FORCE_S)
        assert (await _decide(nc, settings))["decision"]["provider_id"] == winner


async def test_after_a_kill_of_the_broker_what_another_client_put_meanwhile_is_in_force_within_two_seconds(
    nc: Client, broker: Broker, prefix: str
) -> None:
    """Story 8."""
    settings = settings_for(broker.url, prefix)
    async with a_router(settings) as router:
        async with store_of(settings) as store:
            await store.put(*ACME, a_policy_of("before"), replaces=0, author="ann")
        await until(lambda: _version(router) == 1, within_s=IN_FORCE_S)
        broker.kill()
        await until(lambda: not router.service.readiness()["broker"].ok)
        assert _version(router) == 1  # what is known goes on serving
        broker.start()
        async with store_of(settings) as store:
            await store.put(*ACME, a_policy_of("meanwhile"), replaces=1, author="bob")
        await until(lambda: router.service.readiness()["broker"].ok)
        await until(
            lambda: _version(router) == 2,
            within_s=AFTER_A_RECONNECT_S,
            what="the policy that was put meanwhile",
        )
        await until(lambda: nc.is_connected)
        assert (await _decide(nc, settings))["decision"]["provider_id"] == "meanwhile"


async def test_while_the_bucket_is_away_the_last_known_policies_serve_and_readiness_says_so(
    nc: Client, nats_url: str, prefix: str
) -> None:
    """Story 7, for policies, where the router makes no bucket again."""
    settings = settings_for(nats_url, prefix, topology="check")
    await make_topology(settings)
    async with a_router(settings) as router, store_of(settings) as store:
        await store.put(*ACME, a_policy_of("known"), replaces=0, author="ann")
        await until(lambda: _version(router) == 1)
        await nc.jsm().delete_stream(f"KV_{settings.buckets.policies.name}")
        await until(lambda: not router.service.readiness()["policies"].ok)
        status, text = await read_page(router.ready.http, "/readyz")
        assert (status, json.loads(text)["checks"]["policies"]["ok"]) == (503, False)
        assert "the last known state serves" in text
        assert (await _decide(nc, settings))["decision"]["provider_id"] == "known"


async def test_a_tenant_s_policies_are_its_own(nc: Client, settings: Settings) -> None:
    """Story 9: put, changed and deleted for one tenant, nothing moves for another one of a similar
    name.
    """
    owners = {("a.b", "trial"): "dotted", ("a", "b.trial"): "plain", ("acme", "trial"): "acme"}
    async with a_router(settings) as router, store_of(settings) as store:
        for (tenant, name), provider in owners.items():
            await store.put(tenant, name, a_policy_of(provider), replaces=0, author="ann")
        await until(lambda: _version(router) == 1)
        for (tenant, name), provider in owners.items():
            assert (await _decide(nc, settings, tenant, name))["decision"][
                "provider_id"
            ] == provider
        assert (await _decide(nc, settings, "b", "trial"))["error"]["code"] == "policy_not_found"
        await store.delete("a.b", "trial")
        await until(lambda: router.service.policy_table.find("a.b", "trial") is None)
        assert (await _decide(nc, settings, "a", "b.trial"))["decision"]["provider_id"] == "plain"


def _are_at(version: int, *routers: Running) -> bool:
    return all(_version(router) == version for router in routers)


def _version(router: Running) -> int | None:
    policy = router.service.policy_table.find(*ACME)
    return policy.version if policy is not None else None


async def _decide(
    nc: Client, settings: Settings, tenant: str = "acme", name: str = "trial"
) -> Json:
    """Each time a new request."""
    body = {**a_body(tenant_id=tenant), "policy_id": name, "request_id": f"r-{next(_NUMBERS)}"}
    return await ask(nc, settings, json.dumps(body).encode())


async def _command(settings: Settings, cwd: Path, *arguments: str) -> CommandResult:
    """`router policy …`, as an operator types it."""
    files = [str(cwd / given) if given.endswith(".json") else given for given in arguments]
    environ = {
        "ROUTER_BUCKETS__POLICIES__NAME": settings.buckets.policies.name,
        "NATS_URL": settings.nats.url[0],
    }
    return await asyncio.to_thread(command, "policy", *files, environ=environ)
