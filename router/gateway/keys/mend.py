"""Revoke the keys that are chosen, as `router key revoke` does."""

from __future__ import annotations

from router.gateway.keys.store import AuditedKeys, open_keys
from router.shell.access import FormRefused
from router.shell.mend.frame import Mend

MAX_CHOSEN = 100


async def revoke(mend: Mend) -> str:
    """All of them are looked at before the first is revoked."""
    named = mend.form.texts("key")
    if not 0 < len(named) <= MAX_CHOSEN:
        raise FormRefused(400, f"Choose some keys, at most {MAX_CHOSEN}.")
    sources = mend.sources
    store = open_keys(sources.link.jetstream(), sources.settings.buckets.keys.name)
    keys = AuditedKeys(store, mend.trail)
    for key_id in named:
        stored = await keys.store.find(key_id)
        # of a user who is limited to a tenant: one that is not there is refused as another's is
        mend.require_tenant(stored.key.tenant_id if stored is not None else None)
    told = []
    for key_id in named:
        await keys.delete(key_id, note=mend.note)
        told.append(f"{key_id} is revoked")
        mend.session.tell("; ".join(told))  # also when a later one is refused
    return "/keys"
