"""The keys of the gateway's clients: ids and rights, by tenant."""

from __future__ import annotations

from router.gateway.keys.store import open_keys
from router.gateway.keys.views import KEYS
from router.shell.page_data import (
    FormButton,
    FormField,
    Page,
    PageParams,
    Sources,
    WriteForm,
    build_command,
)
from router.shell.table import MAX_ROWS, TableFilter

EMPTY = "No keys. `router key create TENANT` makes one, and shows it once."
REVOKE = WriteForm(
    title="Revoke those that are chosen",
    name="chosen",
    text="As `router key revoke` does: every gateway refuses them within a second. "
    "A new key is made in a terminal alone.",
    fields=(FormField("note", "Note, for the audit", kind="note"),),
    buttons=(FormButton("Revoke", "/keys/revoke", "danger"),),
)


async def read_keys(sources: Sources, params: PageParams) -> Page:
    """The keys of all tenants, or of one."""
    tenant = params.text("tenant")
    store = open_keys(sources.link.jetstream(), sources.settings.buckets.keys.name)
    keys = await store.list(tenant)
    return Page(
        title="Keys",
        lead=f"{len(keys):,} of the gateway's clients",
        command=build_command("router", "key", "list", *([tenant] if tenant is not None else [])),
        table=KEYS.make_table(
            keys[:MAX_ROWS],
            empty=EMPTY,
            filters=(TableFilter("tenant", "Tenant"),),
            choose="key",
        ),
        forms=(REVOKE,) if keys else (),
    )
