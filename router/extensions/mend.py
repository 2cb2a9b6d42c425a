"""Enable and disable extensions, as `router extension enable` and `disable` do: the one of the
address, or those that are chosen.
"""

from __future__ import annotations

from router.delivery.kv.documents import DocumentBucket
from router.extensions.store import AuditedExtensions, ExtensionStore
from router.shell.access import FormRefused
from router.shell.mend.frame import Mend

MAX_CHOSEN = 100


async def enable(mend: Mend) -> str:
    return await _switch(mend, enabled=True)


async def disable(mend: Mend) -> str:
    return await _switch(mend, enabled=False)


async def _switch(mend: Mend, *, enabled: bool) -> str:
    mend.require_all_tenants()
    named = (mend.path["extension"],) if "extension" in mend.path else tuple(mend.form.texts("id"))
    if not 0 < len(named) <= MAX_CHOSEN:
        raise FormRefused(400, f"Choose some extensions, at most {MAX_CHOSEN}.")
    bucket = DocumentBucket(
        mend.sources.link.jetstream(), mend.sources.settings.buckets.extensions.name
    )
    extensions, word = (
        AuditedExtensions(ExtensionStore(bucket), mend.trail),
        "on" if enabled else "off",
    )
    told = []
    for name in named:
        written = await extensions.switch(name, enabled=enabled, author=mend.by, note=mend.note)
        told.append(
            f"{name} is {word}, version {written.version}"
            if written.is_new
            else f"{name} was {word} already"
        )
        mend.session.tell("; ".join(told))  # also when a later one is refused
    return "/extensions"
