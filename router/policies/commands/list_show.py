"""`router policy list`, `show`, `history`, `diff`: which policies there are, their content, and who
changed what.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import orjson
import typer

from router.core import ids
from router.delivery.kv.versioned_store import KEPT, Change
from router.policies.commands.store import Name, Tenant, open_store
from router.policies.model import SHARED, PolicyError, load_policy
from router.policies.model.difference import ABSENT, DocumentDifference, find_differences
from router.policies.store import PolicyNotFound, PolicyStore, StoredPolicy
from router.policies.views import POLICIES, list_policy_fields, list_record_fields
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.output import print_json, print_json_lines, print_table

DELETED = "deleted"

Version = Annotated[
    int | None,
    typer.Option(
        "--version", metavar="VERSION", help="An earlier version instead of the present one.", min=1
    ),
]
Former = Annotated[int, typer.Argument(metavar="A", help="The version before.", min=1)]
Later = Annotated[int, typer.Argument(metavar="B", help="The version after.", min=1)]
Directory = Annotated[
    Path | None,
    typer.Option(
        metavar="DIR",
        help="Look into a directory instead of a server.",
        exists=True,
        file_okay=False,
    ),
]


@command()
async def list_(
    session: CommandSession,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Only this tenant's own; _shared for every tenant's.")
    ] = None,
) -> None:
    """List the policies in force, with version, author and time; with --json one object a line.
    Exit status 0.

    Example:  router policy list --tenant acme
    """
    session.emit_view(await (await open_store(session)).list(tenant), POLICIES, empty="no policies")


@command()
async def show(
    session: CommandSession,
    tenant: Tenant,
    name: Name,
    *,
    version: Version = None,
    policies: Directory = None,
) -> int:
    """Show the policy that a tenant's request would use: its own, or the shared one, in the newest
    form of a document.

    With --version exactly that one of the tenant's own. Exit status: 0 shown, 1 there is none or it
    cannot be used.

    Example:  router policy show acme default
    """
    if policies is not None:
        return _show_file(session, policies, tenant, name)
    store = await open_store(session)
    found = (
        await _find_policy(store, tenant, name)
        if version is None
        else await store.get(tenant, name, version=version)
    )
    document = found.record.document
    session.emit_one(
        {**list_policy_fields(found), "document": document}, lambda: print_json(document)
    )
    return exit_codes.OK


@command()
async def history(session: CommandSession, tenant: Tenant, name: Name) -> None:
    """List who wrote which version when, oldest first. The last 64 writes are kept. Exit status: 0
    listed, 1 there never was one.

    Example:  router policy history acme default
    """
    changes = [
        _list_change_fields(change)
        for change in await (await open_store(session)).history(tenant, name)
    ]
    if session.as_json:
        print_json_lines(changes)
        return
    print_table(
        ("version", "author", "written", "hash", "note"),
        [_build_change_row(fields) for fields in changes],
    )
    print(f"{len(changes)} writes; the last {KEPT} are kept")


@command()
async def diff(
    session: CommandSession, tenant: Tenant, name: Name, former: Former, later: Later
) -> int:
    """Show what changed between two versions, place by place. Exit status: 0 they are the same, 1
    they differ.

    Example:  router policy diff acme default 3 4
    """
    store = await open_store(session)
    before, after = [
        (await store.get(tenant, name, version=version)).record for version in (former, later)
    ]
    found = find_differences(before.document, after.document)
    columns = ("where", f"version {former}", f"version {later}")
    session.emit(
        found, columns, _build_difference_row, _list_difference_fields, empty="they say the same"
    )
    return exit_codes.NO if found else exit_codes.OK


def _show_file(session: CommandSession, directory: Path, tenant: str, name: str) -> int:
    if not (ids.is_scoped(tenant) and ids.is_scoped(name)):
        raise typer.BadParameter(
            "a tenant and a policy are ids: A-Z a-z 0-9 _ . : - without . or _ in front"
        )
    places = (directory / owner / f"{name}.json" for owner in (tenant, SHARED))
    file = next((place for place in places if place.is_file()), None)
    if file is None:
        return exit_codes.refuse(
            f"policy_not_found: neither {tenant}/{name}.json nor {SHARED}/{name}.json is "
            f"in {directory}"
        )
    try:
        document = load_policy(file.read_bytes(), file.parent.name, name).document
    except PolicyError as exc:
        return exit_codes.refuse(f"{file}: {exc}")
    session.emit_one(
        {"tenant": file.parent.name, "policy": name, "document": document},
        lambda: print_json(document),
    )
    return exit_codes.OK


async def _find_policy(store: PolicyStore, tenant: str, name: str) -> StoredPolicy:
    """Return the tenant's own policy, else the shared one. Raises PolicyNotFound."""
    for owner in (tenant, SHARED):
        try:
            return await store.get(owner, name)
        except PolicyNotFound:
            continue
    raise PolicyNotFound(
        f"there is neither {tenant}/{name} nor {SHARED}/{name}; `router policy list` shows "
        "what there is"
    )


def _list_change_fields(change: Change[StoredPolicy]) -> dict[str, object]:
    if change.document is not None:
        record = change.document.record
        return list_record_fields(record) | (
            {"note": record.note} if record.note is not None else {}
        )
    time = datetime.fromtimestamp(change.stored_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return {"version": DELETED, "author": None, "time": time, "hash": None}


def _build_change_row(fields: dict[str, object]) -> tuple[object, ...]:
    return (fields["version"], fields["author"], fields["time"], fields["hash"], fields.get("note"))


def _build_difference_row(one: DocumentDifference) -> tuple[str, str, str]:
    return (one.path, _format_value(one.before), _format_value(one.after))


def _list_difference_fields(one: DocumentDifference) -> dict[str, object]:
    """Leave out `before` or `after` if it has no value."""
    sides = {"before": one.before, "after": one.after}
    return {
        "path": one.path,
        **{name: value for name, value in sides.items() if value is not ABSENT},
    }


def _format_value(value: object) -> str:
    return "–" if value is ABSENT else orjson.dumps(value).decode()
