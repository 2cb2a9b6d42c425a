"""How keys are shown: in a terminal, as JSON, in the console. Never with a hash or a secret."""

from __future__ import annotations

from router.core.clock import now_ms
from router.gateway.keys.model.api_key import list_key_values
from router.gateway.keys.store import StoredKey
from router.shell.output import format_time
from router.shell.view import View, ViewColumn

ACTIVE, REPLACED, EXPIRED = "active", "replaced", "expired"


def describe_state(stored: StoredKey) -> str:
    """By this machine's clock. A replaced key is in force until it expires."""
    if stored.key.is_expired(now_ms()):
        return EXPIRED
    return ACTIVE if stored.key.replaced_by is None else REPLACED


def list_key_fields(stored: StoredKey) -> dict[str, object]:
    record = stored.record
    return {
        "key_id": stored.key.key_id,
        "state": describe_state(stored),
        **list_key_values(stored.key),
        "version": record.version,
        "author": record.author,
        "time": record.time,
    }


def _list_policies(stored: StoredKey) -> str:
    return ", ".join(stored.key.policies) or "all"


KEYS = View(
    ViewColumn("key", label="Key", of="key.key_id", kind="id"),
    ViewColumn("tenant", label="Tenant", of="key.tenant_id"),
    ViewColumn("name", label="Name", of="key.name"),
    ViewColumn("state", label="State", of=describe_state, kind="verdict"),
    ViewColumn(
        "created",
        label="Created",
        of=lambda stored: list_key_values(stored.key).get("created"),
        tell=format_time,
        kind="time",
    ),
    ViewColumn(
        "expires",
        label="Expires",
        of=lambda stored: list_key_values(stored.key).get("expires"),
        tell=format_time,
        kind="time",
    ),
    ViewColumn("policies", label="Policies", of=_list_policies),
    ViewColumn("rate", label="Rate", of=lambda stored: list_key_values(stored.key).get("rate")),
    ViewColumn("replaced_by", label="Replaced by", of="key.replaced_by", kind="id"),
    ViewColumn("author", "by", "By", "record.author"),
    fields=list_key_fields,
)
