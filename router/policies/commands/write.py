"""`router policy sync`, `put`, `rollback`, `delete`: each writes one more version, and only over a
version that the caller has seen.

sync                      make the server's policies equal to a directory under version control
put, rollback, delete     one policy
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from router.policies.commands.list_show import Name, Tenant, open_audited_store, refuse
from router.policies.model import PolicyError, lint
from router.policies.store import check_policy
from router.policies.sync import Mistake, PolicySyncStep, apply_step, plan, read_policies
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.missed_events import watch_deletion
from router.shell.options import Author, choose_author, read_bytes
from router.shell.output import print_json
from router.shell.view import View, ViewColumn

# -- `router policy put`, `rollback` and `delete`.

Replaces = Annotated[
    int | None,
    typer.Option(
        "--replaces", metavar="VERSION", help="The version that you saw and replace.", min=1
    ),
]


@command()
async def put(
    session: CommandSession,
    tenant: Tenant,
    name: Name,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The document; - reads standard input.", dir_okay=False
        ),
    ],
    *,
    replaces: Replaces = None,
    author: Author = None,
) -> int:
    """Write a policy: every router uses it within a second. Without --replaces there must be none
    yet.

    Exit status: 0 it is in force, 1 refused: the document is wrong, or another write came first.

    Example:  router policy put acme default ./default.json --replaces 3
    """
    document = read_bytes(file, "FILE")
    try:
        parsed = check_policy(document, tenant, name)
        version = await (await open_audited_store(session)).put(
            tenant, name, document, replaces=replaces or 0, author=choose_author(author)
        )
    except PolicyError as exc:
        return refuse(exc, str(file), session.as_json)
    warnings = [
        {"path": finding.path, "message": finding.message}
        for finding in (*parsed.warnings, *lint(parsed.policy))
    ]
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
    to: Annotated[
        int,
        typer.Option(
            "--to",
            metavar="VERSION",
            help="The version to go back to; `history` lists them.",
            min=1,
        ),
    ],
    author: Author = None,
) -> None:
    """Write an earlier version again, as a new one. Works for a deleted policy too.

    Exit status: 0 it is in force, 1 that version is no longer stored, or another write came first.

    Example:  router policy rollback acme default --to 3
    """
    version = await (await open_audited_store(session)).rollback(
        tenant, name, to, author=choose_author(author)
    )
    _emit_version(
        session, tenant, name, version, f"in force, as version {to} was", rolled_back_to=to
    )


@command()
async def delete(
    session: CommandSession, tenant: Tenant, name: Name, *, replaces: Replaces = None
) -> None:
    """Delete a policy: requests for it use the shared one, or get none. Its history stays,
    `rollback` restores it.

    Exit status: 0 it is deleted, 1 there is none, or its version is not the one of --replaces.

    Example:  router policy delete acme trial
    """
    policies = await open_audited_store(session)
    async with watch_deletion(session, policies, tenant, name):
        version = await policies.delete(tenant, name, replaces=replaces)
    _emit_version(session, tenant, name, version, "deleted", deleted=True)


def _emit_version(
    session: CommandSession, tenant: str, name: str, version: int, outcome: str, **facts: object
) -> None:
    fields = {"ok": True, "tenant": tenant, "policy": name, "version": version, **facts}
    session.emit_one(fields, f"{tenant}/{name} version {version}: {outcome}")


# -- `router policy sync`.


@command()
async def sync(
    session: CommandSession,
    directory: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", help="<tenant>/<policy>.json and _shared/.", exists=True, file_okay=False
        ),
    ],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the plan and change nothing.")
    ] = False,
    author: Author = None,
) -> int:
    """Write what differs from DIR, and delete what is not in it. If one document is wrong, nothing
    is changed.

    Exit status: 0 all is equal now (with --dry-run: already), 1 refused, another write came first,
    or (--dry-run) it differs.

    Example:  router policy sync ./policies --dry-run
    """
    files = read_policies(directory)
    if files.mistakes or not files.policies:
        # An empty directory is a wrong path far more often than the wish to delete everything.
        empty = f"{directory}: there is no policy in it; to have none, delete them one by one"
        return _refuse_directory(
            [*map(str, files.mistakes)] or [empty], files.mistakes, session.as_json
        )
    policies = await open_audited_store(session)
    steps = plan(files.policies, await policies.store.list())
    session.emit(map(_list_step_fields, steps), SYNC_STEPS, empty="nothing to do: all is equal")
    if dry_run:
        return exit_codes.NO if steps else exit_codes.OK
    done = 0
    try:
        for step in steps:
            await apply_step(policies, step, choose_author(author))
            done += 1
    finally:
        if done < len(steps):  # another write came first, the broker went away, or Ctrl-C
            exit_codes.complain(
                f"at least the first {done} of {len(steps)} changes were made: run it again"
            )
    return exit_codes.OK


def _refuse_directory(lines: list[str], mistakes: Sequence[Mistake], as_json: bool) -> int:
    if as_json:
        print_json(
            {
                "ok": False,
                "errors": [
                    {"file": mistake.path, "path": mistake.where, "message": mistake.message}
                    for mistake in mistakes
                ],
            }
        )
    for line in lines:
        exit_codes.complain(line)
    return exit_codes.NO


def _list_step_fields(step: PolicySyncStep) -> dict[str, object]:
    tenant, name = step.key
    fields = {"action": step.action, "tenant": tenant, "policy": name, "replaces": step.replaces}
    return {key: value for key, value in fields.items() if value is not None} | {
        "changes": [change.path for change in step.changes]
    }


SYNC_STEPS = View(
    ViewColumn("action", ""),
    ViewColumn("tenant"),
    ViewColumn("policy"),
    ViewColumn("now", of="replaces"),
    ViewColumn("what_changes", of=lambda fields: ", ".join(fields["changes"])),
)
