"""What a load asks of the router before it begins: a policy of its own, put by the router's service
and deleted at the end; and one request.

    put_policy       under a name that no other policy has, for all tenants
    first request    again, until that policy is in force; so a router that is not there is told
    delete_policy    whatever came between
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Mapping
from pathlib import Path
from uuid import uuid4

import orjson
import typer
from msgspec import Struct

from router.contracts.decision import POLICY_NOT_FOUND
from router.core.errors import NoRouter, RouterError, Unanswered
from router.operate.admin.broadcast import list_key_headers, request_one
from router.operate.admin.service import ADMIN
from router.policies.commands.list_show import refuse
from router.policies.model import SHARED, PolicyError
from router.policies.store import check_policy
from router.sdk import Answer, Client
from router.shell import exit_codes
from router.shell.broadcast import describe_error
from router.shell.command_frame import CommandSession
from router.shell.options import choose_author, read_bytes

IN_FORCE_S, LOOK_S = 10.0, 0.1
NEEDED = (
    "--policy is put and deleted by the router's services put_policy and delete_policy: they need "
    "admin.enabled there, its admin.api_key here, and leave to publish to beamline.router.v1.admin.*;"
    " or write it yourself by `router policy put`, and name it with --policy-id"
)


class TrialPolicy(Struct, frozen=True):
    """A policy that is there for the run alone: under a name that no other has, for all tenants."""

    name: str
    document: Mapping[str, object]


def read_trial(file: Path | None, policy_id: str | None, *, as_json: bool) -> TrialPolicy | None:
    """The policy of a file, checked as `router policy put` does; None: there is no file."""
    if file is None:
        return None
    if policy_id is not None:
        raise typer.BadParameter("give --policy or --policy-id")
    document, name = read_bytes(file, "--policy"), f"bench-load-{uuid4().hex[:12]}"
    try:
        return TrialPolicy(name, check_policy(document, SHARED, name).document)
    except PolicyError as exc:
        raise typer.Exit(refuse(exc, str(file), as_json)) from None


@contextlib.asynccontextmanager
async def hold_policy(session: CommandSession, trial: TrialPolicy | None) -> AsyncIterator[None]:
    """Put the policy, and delete it at the end, also of a run that fails."""
    if trial is None:
        yield
        return
    name = {"tenant_id": SHARED, "policy_id": trial.name, "author": choose_author(None)}
    delete = f"router policy delete {SHARED} {trial.name}"
    try:
        await _call_service(session, "put_policy", {**name, "policy": trial.document})
    except RouterError as exc:
        exit_codes.complain(NEEDED)
        if isinstance(exc, Unanswered) and not isinstance(exc, NoRouter):
            exit_codes.complain(f"if it was put all the same, `{delete}` deletes it")
        raise
    try:
        yield
    finally:
        try:
            await _call_service(session, "delete_policy", name)
        except RouterError as exc:
            exit_codes.complain(f"the policy is still there ({exc}): `{delete}` deletes it")


async def _call_service(
    session: CommandSession, service: str, fields: Mapping[str, object]
) -> None:
    connection, key = (await session.open_jetstream()).connection, session.settings.admin.api_key
    answer = orjson.loads(
        (
            await request_one(
                connection,
                f"{ADMIN}{service}",
                orjson.dumps(fields),
                list_key_headers(key),
                is_router=True,
            )
        ).data
    )
    if answer.get("ok") is not True:
        raise RouterError(describe_error(answer.get("error") or {}))


async def ask_first(
    client: Client, build: Callable[[int], bytes], *, waits: bool, timeout_s: float
) -> Answer:
    """The answer to a request, `build` with a number that makes it another one. `waits`: until its
    policy is in force. Raises Unanswered.
    """
    now = asyncio.get_running_loop().time
    until, number = now() + (IN_FORCE_S if waits else 0.0), 0
    while True:
        answer = await client.decide_raw(build(number), timeout=timeout_s)
        if answer.error is None or answer.error.code != POLICY_NOT_FOUND or now() >= until:
            return answer
        number += 1
        await asyncio.sleep(LOOK_S)
