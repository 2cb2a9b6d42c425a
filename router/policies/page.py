"""The policies in force; one with its history, its document, and what changed between two versions."""

from __future__ import annotations

from collections.abc import Sequence

import orjson

from router.core import ids
from router.core.masking import shorten
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.versioned_store import Change
from router.policies.model import SHARED
from router.policies.model.difference import find_differences
from router.policies.store import PolicyNotFound, PolicyStore, StoredPolicy
from router.policies.views import HISTORY, POLICIES, format_value
from router.shell.page_data import (
    Fact,
    FactList,
    FormButton,
    FormField,
    InvalidAddress,
    Page,
    PageNotFound,
    PageParams,
    Sources,
    TextBlock,
    WriteForm,
    build_command,
)
from router.shell.table import MAX_ROWS, TableFilter

MAX_DOCUMENT_TEXT = 65_536  # characters
MAX_DIFFERENCES = 200
EMPTY = (
    "No policies. `router policy put` writes the first one; `router serve --policies DIR` "
    "seeds a directory of them."
)


async def read_policies(sources: Sources, params: PageParams) -> Page:
    """The policies of all tenants, or of one."""
    tenant = params.text("tenant")
    stored = await _open_store(sources).list(tenant)
    return Page(
        title="Policies",
        lead=f"{len(stored):,} in force",
        command=build_command("router", "policy", "list", tenant=tenant),
        table=POLICIES.make_table(
            stored[:MAX_ROWS],
            empty=EMPTY,
            filters=(TableFilter("tenant", "Tenant", f"{SHARED} for every tenant's"),),
        ),
    )


async def read_policy(sources: Sources, params: PageParams) -> Page:
    """The newest version or `version`; with `against`, what changed since that one."""
    tenant, policy = params.path["tenant"], params.path["policy"]
    if not ((tenant == SHARED or ids.is_scoped(tenant)) and ids.is_scoped(policy)):
        raise PageNotFound(
            "A tenant and a policy are ids: A-Z a-z 0-9 _ . : - without . or _ in front."
        )
    store, version, against = (
        _open_store(sources),
        _read_version(params, "version"),
        _read_version(params, "against"),
    )
    try:
        history = await store.history(tenant, policy)
        shown = await store.get(tenant, policy, version=version)
        before = await store.get(tenant, policy, version=against) if against is not None else None
    except PolicyNotFound as exc:
        raise PageNotFound(str(exc)) from exc
    address, record = f"/policies/{tenant}/{policy}", shown.record
    lists: list[FactList | TextBlock] = []
    if before is not None:
        lists.append(_list_differences(before, shown))
    document = orjson.dumps(record.document, option=orjson.OPT_INDENT_2).decode()
    lists.append(
        TextBlock(
            f"Version {record.version}", document[:MAX_DOCUMENT_TEXT], f"written by {record.author}"
        )
    )
    words = (
        ("diff", tenant, policy, str(against), str(record.version))
        if before is not None
        else ("show", tenant, policy)
    )
    return Page(
        title=f"{tenant}/{policy}",
        lead=f"version {record.version}",
        command=build_command(
            "router",
            "policy",
            *words,
            version=str(version) if version is not None and before is None else None,
        ),
        back=("/policies", "Policies"),
        lists=lists,
        forms=_build_forms(address, record.version, history),
        table=HISTORY.make_table(reversed(history), empty="Nothing is remembered of it."),
        form=False,
    )


def _build_forms(
    address: str, shown: int, history: Sequence[Change[StoredPolicy]]
) -> Sequence[WriteForm]:
    """An editor of what is shown; and a way back to it, if another version is in force."""
    newest = history[-1].document
    replaces = newest.record.version if newest is not None else 0
    edit = WriteForm(
        title="Change", link=(f"{address}/edit?version={shown}", f"Edit version {shown}")
    )
    if shown == replaces:
        return (edit,)
    fields = (
        FormField("to", value=str(shown)),
        FormField("replaces", value=str(replaces)),
        FormField("note", "Note, for the audit", kind="note"),
    )
    over = f"over version {replaces}" if replaces else "the policy is deleted now"
    text = f"Version {shown} is written again, {over}."
    return (
        edit,
        WriteForm(
            title="Roll back",
            text=text,
            fields=fields,
            buttons=(FormButton("Roll back", f"{address}/rollback", "main"),),
        ),
    )


def _open_store(sources: Sources) -> PolicyStore:
    return PolicyStore(
        DocumentBucket(sources.link.jetstream(), sources.settings.buckets.policies.name)
    )


def _read_version(params: PageParams, name: str) -> int | None:
    text = params.text(name)
    if text is not None and not (
        text.isascii() and text.isdigit() and len(text) < 10 and int(text)
    ):
        raise InvalidAddress(f"{name}: a version is a number from 1")
    return int(text) if text is not None else None


def _list_differences(before: StoredPolicy, after: StoredPolicy) -> FactList:
    differences = find_differences(before.record.document, after.record.document)
    facts = [
        Fact(difference.path, f"{_shorten(difference.before)}  →  {_shorten(difference.after)}")
        for difference in differences[:MAX_DIFFERENCES]
    ]
    title = f"Changed from version {before.record.version} to {after.record.version}"
    return FactList(title, facts or [Fact("", "They say the same.")])


def _shorten(value: object) -> str:
    return shorten(format_value(value), 400)
