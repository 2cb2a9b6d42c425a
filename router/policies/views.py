"""How policies, and the figures of providers, are shown: in a terminal, as JSON, in the console."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from router.contracts.version_record import VersionRecord
from router.policies.provider_figures import describe_errors
from router.policies.store import StoredPolicy
from router.shell.formatting import format_time
from router.shell.table import Cell
from router.shell.view import View, ViewColumn


def list_record_fields(record: VersionRecord) -> dict[str, object]:
    names = ("version", "author", "time", "hash")
    return {name: getattr(record, name) for name in names}


def list_policy_fields(one: StoredPolicy) -> dict[str, object]:
    return {"tenant": one.tenant_id, "policy": one.policy_id, **list_record_fields(one.record)}


POLICIES = View(
    ViewColumn("tenant", label="Tenant", of="tenant_id"),
    ViewColumn("policy", label="Policy", of="policy_id", href="address"),
    ViewColumn("version", label="Version", of="record.version", kind="number"),
    ViewColumn("author", label="Author", of="record.author"),
    ViewColumn("written", label="Written", of="record.time", tell=format_time, kind="time"),
    ViewColumn("hash", label="Hash", of=lambda one: one.record.hash[:12], kind="id"),
    fields=list_policy_fields,
    links=lambda one: {"address": f"/policies/{one.tenant_id}/{one.policy_id}"},
    page_first=("policy",),
)


def _find_success(row: Mapping[str, Any]) -> float | None:
    known: float | None = row["success_rate"] if row["samples"] else None
    success: float | None = row.get("recent_success_rate", known)
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
    return ViewColumn(name, title, label, lambda row: row.get(name), tell, _round, kind)


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
