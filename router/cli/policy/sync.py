"""`router policy sync DIR`: make the server's policies equal to a directory under version control."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_records
from router.cli.policy.store import Author, choose_author, open_store
from router.cli.session import load_settings

if TYPE_CHECKING:
    from router.config import Settings
    from router.services.policy_files import Mistake, PolicyFiles
    from router.services.policy_sync import PolicySyncStep


def sync(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="<tenant>/<policy>.json and _shared/.", exists=True, file_okay=False)],
    *,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the plan and change nothing.")] = False,
    author: Author = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Write what differs from DIR, and delete what is not in it. If one document is wrong, nothing is changed.

    Exit status: 0 all is equal now (with --dry-run: already), 1 refused, another write came first, or (--dry-run) it differs.

    Example:  router policy sync ./policies --dry-run
    """
    from router.services.policy_files import read_policies

    with exit_codes.report_errors():
        settings, files = load_settings(nats_url, config), read_policies(directory)
    if mistakes := [*map(str, files.mistakes)] or _complain_of_empty(directory, files):
        raise typer.Exit(_refuse(mistakes, files.mistakes, as_json))
    exit_codes.run(_sync(settings, files, choose_author(author), dry_run, as_json))


async def _sync(settings: Settings, files: PolicyFiles, author: str, dry_run: bool, as_json: bool) -> int:
    from router.services.policy_sync import apply_step, plan

    async with open_store(settings) as store:
        steps = plan(files.policies, await store.list())
        _print(steps, as_json)
        if dry_run:
            return exit_codes.NO if steps else exit_codes.OK
        for step in steps:
            await apply_step(store, step, author)
    return exit_codes.OK


def _complain_of_empty(directory: Path, files: PolicyFiles) -> list[str]:
    # An empty directory is a wrong path far more often than the wish to delete everything.
    return [] if files.policies else [f"{directory}: there is no policy in it; to have none, delete them one by one"]


def _refuse(lines: Iterable[str], mistakes: Sequence[Mistake], as_json: bool) -> int:
    if as_json:
        print_json({"ok": False, "errors": [{"file": one.path, "path": one.where, "message": one.message} for one in mistakes]})
    for line in lines:
        exit_codes.complain(line)
    return exit_codes.NO


def _print(steps: Sequence[PolicySyncStep], as_json: bool) -> None:
    print_records(
        (_fields(step) for step in steps),
        ("", "tenant", "policy", "now", "what changes"),
        map(_row, steps),
        empty="nothing to do: all is equal",
        as_json=as_json,
    )


def _fields(step: PolicySyncStep) -> dict[str, object]:
    tenant, name = step.key
    fields = {"action": step.action, "tenant": tenant, "policy": name, "replaces": step.replaces}
    return {key: value for key, value in fields.items() if value is not None} | {"changes": [one.path for one in step.changes]}


def _row(step: PolicySyncStep) -> tuple[object, ...]:
    return (step.action, *step.key, step.replaces, ", ".join(one.path for one in step.changes))
