"""`router policy list`, `show`, `history`, `diff`: which policies there are, their content, and who
changed what. `router provider stats`: what strategies choose by.

The policies of a server stand first, and the options that several commands of `router policy` share.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.core import ids
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.versioned_store import KEPT
from router.operate.admin.broadcast import request_from_all
from router.operate.admin.service import ADMIN
from router.policies.model import SHARED, PolicyError, load_policy
from router.policies.model.difference import find_differences
from router.policies.store import AuditedPolicies, PolicyNotFound, PolicyStore, StoredPolicy
from router.policies.views import (
    HISTORY,
    POLICIES,
    PROVIDERS,
    list_policy_fields,
    make_differences_view,
    merge_stats,
)
from router.shell import exit_codes
from router.shell.broadcast import report_failure
from router.shell.command_frame import CommandSession, command
from router.shell.options import check_tenant
from router.shell.output import print_json

# -- The policies of a server.

Tenant = Annotated[
    str, typer.Argument(metavar="TENANT", help="The tenant, or _shared: every tenant's.")
]
Name = Annotated[str, typer.Argument(metavar="POLICY", help="The policy's id.")]


async def open_store(session: CommandSession) -> PolicyStore:
    """Open the store. Raises BrokerUnavailable."""
    return PolicyStore(
        DocumentBucket(await session.open_jetstream(), session.settings.buckets.policies.name)
    )


async def open_audited_store(session: CommandSession) -> AuditedPolicies:
    """Open the store for writes. Raises BrokerUnavailable."""
    return AuditedPolicies(await open_store(session), session)


def refuse(exc: PolicyError, file: str, as_json: bool) -> int:
    """Print every mistake of a document with its path; return the exit status."""
    if as_json:
        print_json(
            {
                "ok": False,
                "code": exc.code,
                "errors": [{"path": path, "message": message} for path, message in exc.errors],
            }
        )
    for path, message in exc.errors:
        exit_codes.complain(f"{file}: {path}: {message}")
    return exit_codes.NO


# -- `list`, `show`, `history` and `diff`.

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
    session.emit(await (await open_store(session)).list(tenant), POLICIES, empty="no policies")


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
    stored = (
        await _find_policy(store, tenant, name)
        if version is None
        else await store.get(tenant, name, version=version)
    )
    document = stored.record.document
    session.emit_one(
        {**list_policy_fields(stored), "document": document}, lambda: print_json(document)
    )
    return exit_codes.OK


@command()
async def history(session: CommandSession, tenant: Tenant, name: Name) -> None:
    """List who wrote which version when, oldest first. The last 64 writes are kept. Exit status: 0
    listed, 1 there never was one.

    Example:  router policy history acme default
    """
    changes = await (await open_store(session)).history(tenant, name)
    session.emit(changes, HISTORY, empty="")
    if not session.as_json:
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
    differences = find_differences(before.document, after.document)
    session.emit(differences, make_differences_view(former, later), empty="they say the same")
    return exit_codes.NO if differences else exit_codes.OK


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


# -- `router provider stats`: what a router has learned of providers from the results of assignments.

STATS_SERVICE = "get_provider_stats"


@command()
async def stats(
    session: CommandSession,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Only this tenant's. Default: every tenant's.")
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long to wait for the instances.", min=0.001
        ),
    ] = 2.0,
) -> int:
    """Show what strategies choose by: latency, success rate, cost, in flight, and the share of
    assignments, of all instances together.

    Share, p50, p95, success and errors are those of the last one to two minutes; cost and score are
    moving averages. Errors are counted by class: whose fault each was. One that says "fails" is
    left out by strategies, but for probes. With --json one object a line. A tenant whose requests
    push no assignment has no figures.

    Exit status: 0 something is known, 1 nothing is, 2 wrong use, 3 no answer.

    Example:  router provider stats --tenant acme
    """
    if tenant is not None:
        check_tenant(tenant)
    asked = {} if tenant is None else {"tenant_id": tenant}
    connection, key = (await session.open_jetstream()).connection, session.settings.admin.api_key
    answers = await request_from_all(connection, key, ADMIN + STATS_SERVICE, asked, timeout_s)
    if not answers.successful:
        return report_failure(answers)
    rows = merge_stats(answers.successful)
    session.emit(
        rows, PROVIDERS, empty="nothing is known of a provider yet: results of assignments tell"
    )
    if left_out := max(answer["left_out"] for answer in answers.successful):
        exit_codes.complain(f"{left_out} more providers are left out: --tenant shows one tenant's")
    return exit_codes.OK if rows else exit_codes.NO
