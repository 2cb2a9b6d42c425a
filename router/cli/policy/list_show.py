"""`router policy list`, `show`, `history`, `diff`: which policies there are, their content, and who changed what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_lines, print_records, print_table
from router.cli.policy.rows import build_difference_row, build_stored_row, list_change_fields, list_difference_fields, list_stored_fields
from router.cli.policy.store import Name, Tenant, open_store
from router.cli.session import load_settings, run_client

if TYPE_CHECKING:
    from router.config import Settings

Version = Annotated[int | None, typer.Option("--version", metavar="VERSION", help="An earlier version instead of the present one.", min=1)]
Former = Annotated[int, typer.Argument(metavar="A", help="The version before.", min=1)]
Deferred = Annotated[int, typer.Argument(metavar="B", help="The version after.", min=1)]


def list_(
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's own; _shared for every tenant's.")] = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """List the policies in force, with version, author and time; with --json one object a line. Exit status 0.

    Example:  router policy list --tenant acme
    """
    run_client(nats_url, config, lambda settings: _list(settings, tenant, as_json))


def show(
    tenant: Tenant,
    name: Name,
    *,
    version: Version = None,
    policies: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Look into a directory instead of a server.", exists=True, file_okay=False)
    ] = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the policy that a tenant's request would use: its own, or the shared one, in the newest form of a document.

    With --version exactly that one of the tenant's own. Exit status: 0 shown, 1 there is none or it cannot be used.

    Example:  router policy show acme default
    """
    from router.cli.policy.show import show_file, show_stored

    with exit_codes.report_errors():
        if policies is not None:
            raise typer.Exit(show_file(policies, tenant, name, as_json))
        settings = load_settings(nats_url, config)
    exit_codes.run(show_stored(settings, tenant, name, version, as_json))


def history(tenant: Tenant, name: Name, *, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """List who wrote which version when, oldest first. The last 64 writes are kept. Exit status: 0 listed, 1 there never was one.

    Example:  router policy history acme default
    """
    run_client(nats_url, config, lambda settings: _history(settings, (tenant, name), as_json))


def diff(
    tenant: Tenant,
    name: Name,
    former: Former,
    later: Deferred,
    *,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two versions, place by place. Exit status: 0 they are the same, 1 they differ.

    Example:  router policy diff acme default 3 4
    """
    run_client(nats_url, config, lambda settings: _diff(settings, (tenant, name), former, later, as_json))


async def _list(settings: Settings, tenant: str | None, as_json: bool) -> int:
    async with open_store(settings) as store:
        found = await store.list(tenant)
    print_records(
        map(list_stored_fields, found),
        ("tenant", "policy", "version", "author", "written", "hash"),
        map(build_stored_row, found),
        empty="no policies",
        as_json=as_json,
    )
    return exit_codes.OK


async def _history(settings: Settings, key: tuple[str, str], as_json: bool) -> int:
    from router.buckets.versioned_store import KEPT

    async with open_store(settings) as store:
        changes = [list_change_fields(change) for change in await store.history(*key)]
    if as_json:
        print_lines(changes)
        return exit_codes.OK
    print_table(("version", "author", "written", "hash"), [tuple(fields.values()) for fields in changes])
    print(f"{len(changes)} writes; the last {KEPT} are kept")
    return exit_codes.OK


async def _diff(settings: Settings, key: tuple[str, str], former: int, later: int, as_json: bool) -> int:
    from router.policy.difference import find_differences

    async with open_store(settings) as store:
        before, after = [(await store.get(*key, version=version)).record for version in (former, later)]
    found = find_differences(before.document, after.document)
    print_records(
        map(list_difference_fields, found),
        ("where", f"version {former}", f"version {later}"),
        map(build_difference_row, found),
        empty="they say the same",
        as_json=as_json,
    )
    return exit_codes.NO if found else exit_codes.OK
