"""`router policy sync DIR`: make the server's policies equal to a directory under version control."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.policies.commands.store import Author, open_audited_store
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.option_values import choose_author
from router.shell.output import print_json

if TYPE_CHECKING:
    from router.policies.files import Mistake
    from router.policies.sync import PolicySyncStep

COLUMNS = ("", "tenant", "policy", "now", "what changes")


@command()
async def sync(
    session: CommandSession,
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="<tenant>/<policy>.json and _shared/.", exists=True, file_okay=False)],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    author: Author = None,
) -> int:
    """Write what differs from DIR, and delete what is not in it. If one document is wrong, nothing is changed.

    Exit status: 0 all is equal now (with --dry-run: already), 1 refused, another write came first, or (--dry-run) it differs.

    Example:  router policy sync ./policies --dry-run
    """
    from router.policies.files import read_policies
    from router.policies.sync import plan

    files = read_policies(directory)
    if files.mistakes or not files.policies:
        # An empty directory is a wrong path far more often than the wish to delete everything.
        empty = f"{directory}: there is no policy in it; to have none, delete them one by one"
        return _refuse([*map(str, files.mistakes)] or [empty], files.mistakes, session.as_json)
    policies = await open_audited_store(session)
    steps = plan(files.policies, await policies.store.list())
    session.emit(steps, COLUMNS, _build_row, _list_fields, empty="nothing to do: all is equal")
    if dry_run:
        return exit_codes.NO if steps else exit_codes.OK
    done = 0
    try:
        for step in steps:
            await policies.apply_step(step, choose_author(author))
            done += 1
    finally:
        if done < len(steps):  # another write came first, the broker went away, or Ctrl-C
            exit_codes.complain(f"at least the first {done} of {len(steps)} changes were made: run it again")
    return exit_codes.OK


def _refuse(lines: list[str], mistakes: Sequence[Mistake], as_json: bool) -> int:
    if as_json:
        print_json({"ok": False, "errors": [{"file": one.path, "path": one.where, "message": one.message} for one in mistakes]})
    for line in lines:
        exit_codes.complain(line)
    return exit_codes.NO


def _list_fields(step: PolicySyncStep) -> dict[str, object]:
    tenant, name = step.key
    fields = {"action": step.action, "tenant": tenant, "policy": name, "replaces": step.replaces}
    return {key: value for key, value in fields.items() if value is not None} | {"changes": [one.path for one in step.changes]}


def _build_row(step: PolicySyncStep) -> tuple[object, ...]:
    return (step.action, *step.key, step.replaces, ", ".join(one.path for one in step.changes))
