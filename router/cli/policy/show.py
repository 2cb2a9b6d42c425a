"""Print one document for `router policy show`, from a server or a directory, as a tenant's request would use it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from router.cli import exit_codes
from router.cli.output import print_json
from router.cli.policy.rows import list_stored_fields
from router.cli.policy.store import open_store

if TYPE_CHECKING:
    from router.app.policy_store import PolicyStore, StoredPolicy
    from router.config import Settings


async def show_stored(settings: Settings, tenant: str, name: str, version: int | None, as_json: bool) -> int:
    """Return the exit status."""
    async with open_store(settings) as store:
        found = await _find_policy(store, tenant, name) if version is None else await store.get(tenant, name, version=version)
    fields = list_stored_fields(found)
    print_json({**fields, "document": found.record.document} if as_json else found.record.document)
    return exit_codes.OK


def show_file(directory: Path, tenant: str, name: str, as_json: bool) -> int:
    """Do the same for `<tenant>/<policy>.json` in a directory."""
    from router import ids
    from router.policy import SHARED, PolicyError, load_policy

    if not (ids.is_scoped(tenant) and ids.is_scoped(name)):
        raise typer.BadParameter("a tenant and a policy are ids: A-Z a-z 0-9 _ . : - without . or _ in front")
    for owner in (tenant, SHARED):
        file = directory / owner / f"{name}.json"
        if file.is_file():
            try:
                parsed = load_policy(file.read_bytes(), owner, name)
            except PolicyError as exc:
                exit_codes.complain(f"{file}: {exc}")
                return exit_codes.NO
            print_json({"tenant": owner, "policy": name, "document": parsed.document} if as_json else parsed.document)
            return exit_codes.OK
    exit_codes.complain(f"policy_not_found: neither {tenant}/{name}.json nor {SHARED}/{name}.json is in {directory}")
    return exit_codes.NO


async def _find_policy(store: PolicyStore, tenant: str, name: str) -> StoredPolicy:
    """Return the tenant's own policy, else the shared one. Raises PolicyNotFound."""
    from router.app.policy_store import PolicyNotFound
    from router.policy import SHARED

    for owner in (tenant, SHARED):
        with contextlib.suppress(PolicyNotFound):
            return await store.get(owner, name)
    raise PolicyNotFound(f"there is neither {tenant}/{name} nor {SHARED}/{name}; `router policy list` shows what there is")
