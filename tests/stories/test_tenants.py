"""Tenants and policies whose names could be taken for each other, for a path or for a subject."""

import json
from pathlib import Path

import pytest
from nats.aio.client import Client

from router.config import Settings
from tests.support.requests import a_body
from tests.support.service import POLICIES, a_router
from tests.support.stories import (
    Json,
    MessageRecorder,
    a_request,
    ask,
    is_settled,
    read_dead_letters,
    read_last_sequence,
)
from tests.support.waiting import until

UNFIT = ["..", "../acme", "_shared", "*", ">", ".", "a.*", "a/b", "$JS", "", "a b", "a\x00b"]


async def test_dots_do_not_move_between_tenant_and_policy(nc: Client, settings: Settings) -> None:
    """Story 13: tenant `a.b` with policy `c`, tenant `a` with policy `b.c`: each has its own, even
    under one request id.
    """
    async with a_router(settings):
        assert await _provider(nc, settings, "a.b", "c") == "dotted-tenant"
        assert await _provider(nc, settings, "a", "b.c") == "dotted-policy"
        assert await _provider(nc, settings, "a.b", "c") == "dotted-tenant"
        for tenant, policy in [
            ("a.b.c", "c"),
            ("acme", "c"),
            ("b", "c"),
            ("a.c", "b"),
            ("a:b", "c"),
        ]:
            assert (await _decide(nc, settings, tenant, policy))["error"][
                "code"
            ] == "policy_not_found"


@pytest.mark.parametrize("place", ["tenant", "policy", "header"])
async def test_an_unfit_name_reaches_nothing(nc: Client, settings: Settings, place: str) -> None:
    """Story 13: `..`, `_shared`, `*`, `>`: refused with a dead letter; no file is read by it, no
    subject is built of it.
    """
    async with a_router(settings):
        everything = await MessageRecorder.on(nc, ">")
        # an empty policy or header is an absent one
        names = [name for name in UNFIT if place == "tenant" or name]
        for name in names:
            answer = await _ask_with(nc, settings, place, name)
            assert answer["error"]["code"] == "invalid_request", name
            assert answer["error"]["details"]["field"] == (
                "policy_id" if place == "policy" else "message.tenant_id"
            ), name
        await until(lambda: is_settled(nc, settings))
        assert (
            await read_last_sequence(nc, settings)
            == len(await read_dead_letters(nc, settings))
            == len(names)
        )
        assert {
            subject for subject in everything.subjects if not _is_expected(settings, subject)
        } == set()


async def test_the_shared_directory_is_no_tenant(nc: Client, settings: Settings) -> None:
    """Story 13: its policies serve every tenant under the tenant's own name only."""
    assert (POLICIES / "_shared" / "default.json").exists()
    async with a_router(settings):
        assert (await _decide(nc, settings, "any-tenant", "default"))["ok"] is True
        assert (await _decide(nc, settings, "_shared", "default"))["error"][
            "code"
        ] == "invalid_request"


async def test_a_file_beside_the_policies_is_not_one(
    nc: Client, settings: Settings, tmp_path: Path
) -> None:
    """Story 13: what a path could lead to is there, and is not found."""
    policies = tmp_path / "policies"
    (policies / "acme").mkdir(parents=True)
    for place in (tmp_path / "secret.json", policies / "secret.json"):
        place.write_text(
            json.dumps({"version": "1.0", "providers": [{"name": "secret", "weight": 1}]})
        )
    async with a_router(settings, policies):
        for tenant, policy in [
            ("acme", "../secret"),
            ("acme", "../../secret"),
            ("..", "secret"),
            (".", "secret"),
            ("acme", "secret"),
        ]:
            assert (await _decide(nc, settings, tenant, policy))["ok"] is False


async def _provider(nc: Client, settings: Settings, tenant: str, policy: str) -> str:
    return str((await _decide(nc, settings, tenant, policy))["decision"]["provider_id"])


async def _decide(nc: Client, settings: Settings, tenant: str, policy: str) -> Json:
    return await ask(nc, settings, a_request("same", **a_body(tenant_id=tenant), policy_id=policy))


async def _ask_with(nc: Client, settings: Settings, place: str, name: str) -> Json:
    if place == "tenant":
        return await _decide(nc, settings, name, "default")
    if place == "policy":
        return await _decide(nc, settings, "acme", name)
    headers = {"tenant_id": name, "version": "1", "Nats-Msg-Id": name.encode().hex()}
    return await ask(nc, settings, json.dumps(a_body(tenant_id=None)).encode(), headers)


def _is_expected(settings: Settings, subject: str) -> bool:
    decide = settings.decide.subject
    ours = (
        "_INBOX.",
        "$JS.API.CONSUMER.",
        "$JS.API.STREAM.",
        "$JS.ACK.",
        "$JS.EVENT.",
        "beamline.alert.v1.",
        "beamline.router.v1.contract.violation.",
        "beamline.router.v1.internal.",  # what routers tell one another, by the clock
    )
    return subject in {decide, f"{decide}.dlq"} or subject.startswith(ours)
