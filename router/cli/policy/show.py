"""What `router policy show` prints: one document, from a server or from a directory, as a tenant's request would meet it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import typer

from router.cli import ends
from router.cli.output import print_json
from router.cli.policy.store import store_of

if TYPE_CHECKING:
    from router.app.policy_store import PolicyStore
    from router.config import Settings
    from router.contracts.version_record import VersionRecord


async def show_stored(settings: Settings, tenant: str, name: str, version: int | None, as_json: bool) -> int:
    """The status to end with."""
    async with store_of(settings) as store:
        owner, record = await _met(store, tenant, name) if version is None else (tenant, await store.get(tenant, name, version))
    written = {"version": record.version, "author": record.author, "time": record.time, "hash": record.hash}
    print_json({"tenant": owner, "policy": name, **written, "document": record.document} if as_json else record.document)
    return ends.OK


def show_file(directory: Path, tenant: str, name: str, as_json: bool) -> int:
    """The same for `<tenant>/<policy>.json` in a directory."""
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
                ends.complain(f"{file}: {exc}")
                return ends.NO
            print_json({"tenant": owner, "policy": name, "document": parsed.document} if as_json else parsed.document)
            return ends.OK
    ends.complain(f"policy_not_found: neither {tenant}/{name}.json nor {SHARED}/{name}.json is in {directory}")
    return ends.NO


async def _met(store: PolicyStore, tenant: str, name: str) -> tuple[str, VersionRecord]:
    """The tenant's own, else the shared one. Raises PolicyNotFound."""
    from router.app.policy_store import PolicyNotFound
    from router.policy import SHARED

    try:
        return tenant, await store.get(tenant, name)
    except PolicyNotFound:
        try:
            return SHARED, await store.get(SHARED, name)
        except PolicyNotFound:
            raise PolicyNotFound(
                f"there is neither {tenant}/{name} nor {SHARED}/{name}; `router policy list` shows what there is"
            ) from None
