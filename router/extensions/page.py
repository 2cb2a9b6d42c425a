"""The registered extensions and providers, how they fared in the last minutes on all instances;
what was learned of providers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from router.core import ids
from router.core.errors import RouterError
from router.delivery.kv.documents import DocumentBucket
from router.extensions.store import ExtensionStore
from router.extensions.views import make_extensions_view
from router.operate.admin.broadcast import (
    InstanceAnswers,
    list_key_headers,
    request_from_all,
    request_one,
)
from router.operate.admin.service import ADMIN
from router.policies.views import PROVIDERS, merge_stats
from router.shell.page_data import (
    FormButton,
    FormField,
    InvalidAddress,
    Page,
    PageParams,
    Sources,
    WriteForm,
    build_command,
)
from router.shell.table import MAX_ROWS, TableFilter

HEALTH_SERVICE = "get_extension_health"
STATS_SERVICE = "get_provider_stats"
WITHIN_S = 1.0
STATS_EMPTY = (
    "Nothing is known of a provider yet: results of assignments tell. A tenant whose requests "
    "push no assignment has no figures."
)
TABS = (("/extensions", "Extensions"), ("/extensions/providers", "Providers"))
SWITCH = WriteForm(
    title="Switch those that are chosen",
    name="chosen",
    text="As `router extension disable` and `enable` do: every router follows within a second.",
    fields=(FormField("note", "Note, for the audit", kind="note"),),
    buttons=(
        FormButton("Disable", "/extensions/disable", "danger"),
        FormButton("Enable", "/extensions/enable"),
    ),
)
EMPTY = (
    "No extension is registered. `router extension register FILE` registers one; policies then "
    "call it by its id."
)


async def read_extensions(sources: Sources, _: PageParams) -> Page:
    """The registry, and beside each entry the figures of the last five minutes, if a router
    answers.
    """
    jetstream, settings = sources.link.jetstream(), sources.settings
    registered = await ExtensionStore(
        DocumentBucket(jetstream, settings.buckets.extensions.name)
    ).list()
    connection, key = jetstream.connection, list_key_headers(settings.admin.api_key)
    health: Mapping[str, Mapping[str, Any]] = {}
    cause = ""
    try:
        answer = await request_one(connection, ADMIN + HEALTH_SERVICE, b"{}", key, is_router=True)
        health, cause = _read_health(answer.data)
    except RouterError as exc:
        cause = str(exc)
    return Page(
        title="Extensions",
        lead=f"{len(registered):,} registered; figures of the last five minutes",
        command=build_command("router", "extension", "health"),
        tabs=TABS,
        table=make_extensions_view(health).make_table(
            registered[:MAX_ROWS],
            empty=EMPTY,
            note=f"No figures: {cause}" if cause else "",
            choose="id",
        ),
        forms=(SWITCH,) if registered else (),
    )


async def read_providers(sources: Sources, params: PageParams) -> Page:
    """What strategies choose by, of all instances together: the figures of `router provider stats`."""
    tenant = params.text("tenant")
    if tenant is not None and not ids.is_scoped(tenant):
        raise InvalidAddress("tenant: an id is A-Z a-z 0-9 _ . : - without . or _ in front")
    asked = {"tenant_id": tenant} if tenant is not None else {}
    connection, key = sources.link.connection(), sources.settings.admin.api_key
    answers = await request_from_all(connection, key, ADMIN + STATS_SERVICE, asked, WITHIN_S)
    rows = merge_stats(answers.successful) if answers.successful else []
    left_out = max((answer.get("left_out", 0) for answer in answers.successful), default=0)
    return Page(
        title="Providers",
        lead="what strategies choose by; share, latency and success of the last one to two minutes",
        command=build_command("router", "provider", "stats", tenant=tenant),
        tabs=TABS,
        table=PROVIDERS.make_table(
            rows[:MAX_ROWS],
            empty=STATS_EMPTY if answers.successful else _explain_silence(answers),
            filters=(TableFilter("tenant", "Tenant"),),
            note=f"{left_out:,} more are left out: one tenant's are fewer." if left_out else "",
        ),
    )


def _explain_silence(answers: InstanceAnswers) -> str:
    texts = dict.fromkeys(
        f"{error.get('code')}: {error.get('message')}" for error in answers.errors
    )
    return ". ".join(texts) or "No router answered: is one running here, with admin.enabled?"


def _read_health(data: bytes) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("health"), dict):
        error = answer.get("error") if isinstance(answer, dict) else None
        return {}, f"{error.get('code')}: {error.get('message')}" if isinstance(
            error, dict
        ) else "the answer cannot be read"
    return {name: state for name, state in answer["health"].items() if isinstance(state, dict)}, ""
