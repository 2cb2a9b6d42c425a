"""Print one document for `router policy show`, from a server or a directory, as a tenant's request would use it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from router.cli import exit_codes
from router.cli.output import print_json
from router.cli.policy.store import open_store

if TYPE_CHECKING:
    from router.config import Settings
    from router.contracts.version_record import VersionRecord
    from router.services.policy_store import PolicyStore


async def show_stored(settings: Settings, tenant: str, name: str, version: int | None, as_json: bool) -> int:
    """Return the exit status."""
    async with open_store(settings) as store:
        owner, record = await _find_policy(store, tenant, name) if version is None else (tenant, await store.get(tenant, name, version))
    written = {"version": record.version, "author": record.author, "time": record.time, "hash": record.hash}
    print_json({"tenant": owner, "policy": name, **written, "document": record.document} if as_json else record.document)
    return exit_codes.OK


def show_file(directory: Path, tenant: str, name: str, as_json: bool) -> int:
    """Do the same for `<tenant>/<policy>.json` in a directory."""
    from router.core import ids
    from router.routing.policy import SHARED, PolicyError, load_policy

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


async def _find_policy(store: PolicyStore, tenant: str, name: str) -> tuple[str, VersionRecord]:
    """Return the tenant's own policy, else the shared one. Raises PolicyNotFound."""
    from router.routing.policy import SHARED
    from router.services.policy_store import PolicyNotFound

    try:
        return tenant, await store.get(tenant, name)
    except PolicyNotFound:
        try:
            return SHARED, await store.get(SHARED, name)
        except PolicyNotFound:
            raise PolicyNotFound(
                f"there is neither {tenant}/{name} nor {SHARED}/{name}; `router policy list` shows what there is"
            ) from None
