"""Enable and disable an extension, as `router extension enable` and `disable` do."""

from __future__ import annotations

from router.console.mend.frame import Mend
from router.delivery.buckets.documents import DocumentBucket
from router.services.audited_extensions import AuditedExtensions
from router.services.extension_store import ExtensionStore


async def enable(mend: Mend) -> str:
    return await _switch(mend, enabled=True)


async def disable(mend: Mend) -> str:
    return await _switch(mend, enabled=False)


async def _switch(mend: Mend, *, enabled: bool) -> str:
    mend.require_all_tenants()
    store = ExtensionStore(DocumentBucket(mend.sources.link.jetstream(), mend.sources.settings.buckets.extensions.name))
    extension, word = mend.path["extension"], "enabled" if enabled else "disabled"
    written = await AuditedExtensions(store, mend.trail).switch(extension, enabled=enabled, author=mend.by, note=mend.note)
    mend.session.tell(f"{extension} is {word}, version {written.version}." if written.is_new else f"{extension} was {word} already.")
    return "/extensions"
