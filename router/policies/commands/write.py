"""`router policy put`, `rollback`, `delete`: each writes one more version, and only over a version that the caller has seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.policies.commands.store import Author, Name, Tenant, open_audited_store, refuse
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import watch_deletion
from router.shell.option_values import choose_author, read_bytes

Replaces = Annotated[int | None, typer.Option("--replaces", metavar="VERSION", help="The version that you saw and replace.", min=1)]


@command()
async def put(
    session: CommandSession,
    tenant: Tenant,
    name: Name,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="The document; - reads standard input.", dir_okay=False)],
    *,
    replaces: Replaces = None,
    author: Author = None,
) -> int:
    """Write a policy: every router uses it within a second. Without --replaces there must be none yet.

    Exit status: 0 it is in force, 1 refused: the document is wrong, or another write came first.

    Example:  router policy put acme default ./default.json --replaces 3
    """
    from router.policies.check import check_policy
    from router.policies.model import PolicyError, lint

    document = read_bytes(file, "FILE")
    try:
        parsed = check_policy(document, tenant, name)
        version = await (await open_audited_store(session)).put(
            tenant, name, document, replaces=replaces or 0, author=choose_author(author)
        )
    except PolicyError as exc:
        return refuse(exc, str(file), session.as_json)
    warnings = [{"path": found.path, "message": found.message} for found in (*parsed.warnings, *lint(parsed.policy))]
    for warning in warnings:
        exit_codes.complain(f"{file}: {warning['path']}: {warning['message']}")
    _emit_version(session, tenant, name, version, "in force", warnings=warnings)
    return exit_codes.OK


@command()
async def rollback(
    session: CommandSession,
    tenant: Tenant,
    name: Name,
    *,
    to: Annotated[int, typer.Option("--to", metavar="VERSION", help="The version to go back to; `history` lists them.", min=1)],
    author: Author = None,
) -> None:
    """Write an earlier version again, as a new one. Works for a deleted policy too.

    Exit status: 0 it is in force, 1 that version is no longer stored, or another write came first.

    Example:  router policy rollback acme default --to 3
    """
    version = await (await open_audited_store(session)).rollback(tenant, name, to, author=choose_author(author))
    _emit_version(session, tenant, name, version, f"in force, as version {to} was", rolled_back_to=to)


@command()
async def delete(session: CommandSession, tenant: Tenant, name: Name, *, replaces: Replaces = None) -> None:
    """Delete a policy: requests for it use the shared one, or get none. Its history stays, `rollback` restores it.

    Exit status: 0 it is deleted, 1 there is none, or its version is not the one of --replaces.

    Example:  router policy delete acme trial
    """
    from router.operate.audit import OperatorWrite

    policies = await open_audited_store(session)
    again = OperatorWrite(command="policy delete", target=f"{tenant}/{name}", tenant_id=tenant)
    async with watch_deletion(session, policies.store, (tenant, name), again):
        version = await policies.delete(tenant, name, replaces=replaces)
    _emit_version(session, tenant, name, version, "deleted", deleted=True)


def _emit_version(session: CommandSession, tenant: str, name: str, version: int, outcome: str, **facts: object) -> None:
    fields = {"ok": True, "tenant": tenant, "policy": name, "version": version, **facts}
    session.emit_one(fields, f"{tenant}/{name} version {version}: {outcome}")
