"""How policies, their history, and the figures of providers are shown: in a terminal, as JSON, in
the console.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import orjson

from router.contracts.version_record import VersionRecord
from router.delivery.kv.versioned_store import Change
from router.policies.model.difference import ABSENT, DocumentDifference
from router.policies.store import StoredPolicy
from router.shell.output import format_time
from router.shell.table import Cell, Row
from router.shell.view import View, ViewColumn


def list_record_fields(record: VersionRecord) -> dict[str, object]:
    names = ("version", "author", "time", "hash")
    return {name: getattr(record, name) for name in names}


def list_policy_fields(stored: StoredPolicy) -> dict[str, object]:
    return {
        "tenant": stored.tenant_id,
        "policy": stored.policy_id,
        **list_record_fields(stored.record),
    }


def _shorten_hash(text: str) -> str:
    return text[:12]


POLICIES = View(
    ViewColumn("tenant", label="Tenant", of="tenant_id"),
    ViewColumn("policy", label="Policy", of="policy_id", href="address"),
    ViewColumn("version", label="Version", of="record.version", kind="number"),
    ViewColumn("author", label="Author", of="record.author"),
    ViewColumn("written", label="Written", of="record.time", tell=format_time, kind="time"),
    ViewColumn("hash", "hash", "Hash", "record.hash", _shorten_hash, _shorten_hash, "id"),
    fields=list_policy_fields,
    links=lambda stored: {"address": f"/policies/{stored.tenant_id}/{stored.policy_id}"},
    page_first=("policy",),
)


DELETED = "deleted"
PolicyChange = Change[StoredPolicy]


def list_change_fields(change: PolicyChange) -> dict[str, object]:
    if change.document is not None:
        record = change.document.record
        note = {"note": record.note} if record.note is not None else {}
        return {**list_record_fields(record), **note}
    time = change.stored_at.isoformat(timespec="milliseconds")
    return {"version": DELETED, "author": None, "time": time, "hash": None}


def _find_time(change: PolicyChange) -> str:
    written = change.document
    return change.stored_at.isoformat() if written is None else written.record.time


def _describe_since(change: PolicyChange) -> str | None:
    if change.document is None:
        return DELETED
    earlier = change.document.record.version - 1
    return f"since version {earlier}" if earlier else None


def _link_change(change: PolicyChange) -> Row:
    if change.document is None:
        return {}
    stored, version = change.document, change.document.record.version
    address = f"/policies/{stored.tenant_id}/{stored.policy_id}?version={version}"
    return {"address": address, "changes_address": f"{address}&against={version - 1}"}


# In a terminal a deletion stands where the version does, in the console among the changes.
HISTORY = View(
    ViewColumn("version", of=lambda change: list_change_fields(change)["version"]),
    ViewColumn("version", None, "Version", of="document.record.version", kind="id", href="address"),
    ViewColumn("author", label="Author", of="document.record.author"),
    ViewColumn("written", of=lambda change: list_change_fields(change)["time"]),
    ViewColumn("written", None, "Written", of=_find_time, kind="time"),
    ViewColumn("hash", "hash", "Hash", "document.record.hash", page=_shorten_hash, kind="id"),
    ViewColumn("note", of="document.record.note"),
    ViewColumn("changes", None, "Changes", of=_describe_since, href="changes_address"),
    fields=list_change_fields,
    links=_link_change,
)


def make_differences_view(former: int, later: int) -> View:
    """Return the view of what differs between two versions of a document."""
    return View(
        ViewColumn("path", "where"),
        ViewColumn(
            "before", f"version {former}", of=lambda difference: format_value(difference.before)
        ),
        ViewColumn(
            "after", f"version {later}", of=lambda difference: format_value(difference.after)
        ),
        fields=_list_difference_fields,
    )


def _list_difference_fields(difference: DocumentDifference) -> dict[str, object]:
    """Leave out `before` or `after` if it has no value."""
    sides = {"before": difference.before, "after": difference.after}
    told = {name: value for name, value in sides.items() if value is not ABSENT}
    return {"path": difference.path, **told}


def format_value(value: object) -> str:
    return "–" if value is ABSENT else orjson.dumps(value).decode()


# -- The answers of `get_provider_stats` of all instances as one list.


def merge_stats(answers: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Each instance knows the figures of all; of two the one counts that knows more results. In
    order of tenant and provider.
    """
    by_key: dict[tuple[str, str], Mapping[str, Any]] = {}
    for answer in answers:
        for row in answer["providers"]:
            key = row["tenant_id"], row["provider_id"]
            if key not in by_key or row["samples"] > by_key[key]["samples"]:
                by_key[key] = row
    return [by_key[key] for key in sorted(by_key)]


def describe_errors(row: Mapping[str, Any]) -> str | None:
    """The errors of a row by class, behind the word "fails" where strategies leave the provider
    out.
    """
    told = [f"{count} {name}" for name, count in row["errors"].items() if count]
    return ", ".join([*(["fails"] if row["is_failing"] else []), *told]) or None


def _find_success(row: Mapping[str, Any]) -> float | None:
    overall: float | None = row["success_rate"] if row["samples"] else None
    success: float | None = row.get("recent_success_rate", overall)
    return success


def _round(value: Cell) -> Cell:
    return round(value, 3) if isinstance(value, float) else value


def _figure(
    name: str,
    title: str,
    label: str,
    tell: Callable[[Any], object] | None = None,
    kind: str = "number",
) -> ViewColumn:
    """A column of an entry of the answer of `get_provider_stats`, where it has that entry."""
    return ViewColumn(name, title, label, "", tell, _round, kind)


PROVIDERS = View(
    _figure("tenant_id", "tenant", "Tenant", kind="text"),
    _figure("provider_id", "provider", "Provider", kind="text"),
    _figure("share", "share", "Share", "{:.1%}".format, "percent"),
    _figure("in_flight", "in flight", "In flight"),
    _figure("p50_latency_ms", "p50", "p50 ms", "{:.4g} ms".format),
    _figure("p95_latency_ms", "p95", "p95 ms", "{:.4g} ms".format),
    ViewColumn("success", label="Success", of=_find_success, tell="{:.1%}".format, kind="percent"),
    _figure("cost", "cost", "Cost", "{:.4g}".format),
    _figure("score", "score", "Score", "{:.4g}".format),
    _figure("samples", "results", "Results"),
    _figure("silent_s", "last", "Last, s ago", "{:.0f} s ago".format),
    ViewColumn("errors_text", "errors", "Errors", of=describe_errors),
    fields=dict,
)
