"""How registered extensions, and how they fared, are shown: in a terminal, as JSON, in the console."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from router.extensions.store import RegisteredExtension
from router.shell.output import format_time
from router.shell.view import View, ViewColumn

PAGE_FIRST = [
    "id",
    "type",
    "status",
    "breaker",
    "success",
    "calls",
    "p50",
    "p99",
    "state",
    "timeout",
    "version",
    "author",
]
Told = Mapping[str, Any]  # what routers tell of an extension, by `get_extension_health`

_MS = "{:.1f}".format
_FIGURES = (
    ViewColumn("status", label="Health", kind="verdict"),
    ViewColumn("success", "success", "Success", "success_rate", "{:.1%}".format, kind="percent"),
    ViewColumn("calls", label="Calls", kind="number"),
    ViewColumn("failures", of="failure_count"),
    ViewColumn("p50", "p50 ms", "p50 ms", "p50_latency_ms", _MS, kind="number"),
    ViewColumn("p95", "p95 ms", of="p95_latency_ms", tell=_MS),
    ViewColumn("p99", "p99 ms", "p99 ms", "p99_latency_ms", _MS, kind="number"),
    ViewColumn("breaker", label="Breaker", of="circuit_breaker_state", kind="verdict"),
)


def list_figures(told: Told) -> dict[str, Any]:
    """Without calls there are no figures; of what no router tells there is nothing."""
    if not told:
        return {}
    calls = told.get("success_count", 0) + told.get("failure_count", 0)
    if told.get("latency_samples"):
        return {**told, "calls": calls}
    always = {name: told.get(name) for name in ("circuit_breaker_state", "nodes")}
    return {**always, "calls": calls, "status": "no calls"}


# `router extension health`, of `list_figures`.
HEALTH = View(
    ViewColumn("id"),
    *_FIGURES,
    ViewColumn("services", of=lambda row: row["services"] or "none found"),
    ViewColumn("nodes", of=lambda row: " ".join(sorted(row.get("nodes") or ()))),
)


def list_extension_fields(registered: RegisteredExtension) -> dict[str, object]:
    """Return the entry as it was written, with its author and time."""
    record = registered.record
    return {
        "id": registered.entry.id,
        "version": record.version,
        "author": record.author,
        "time": record.time,
        "entry": record.document,
    }


def make_extensions_view(health: Mapping[str, Told] = {}) -> View:
    """Return the view of the registry. `health` is for the console, which alone shows figures."""
    figures = {name: list_figures(told) for name, told in health.items()}
    return View(
        ViewColumn("id", label="Extension", of="entry.id", kind="id"),
        ViewColumn("type", label="Type", of="entry.kind"),
        *(_read_of_entry(column, figures) for column in _FIGURES),
        ViewColumn("subjects", label="Subjects", of=_list_subjects, tell="\n".join, page=", ".join),
        ViewColumn("timeout", of="entry.timeout_ms", tell="{} ms".format),
        ViewColumn("timeout", None, "Timeout ms", "entry.timeout_ms", kind="number"),
        ViewColumn("retry", of="entry.retry"),
        ViewColumn("state", label="State", of=_describe_state, kind="verdict"),
        ViewColumn("version", label="Version", of="record.version", kind="number"),
        ViewColumn("written", of="record.time", tell=format_time),
        ViewColumn("author", "by", "By", "record.author"),
        fields=list_extension_fields,
        page_first=PAGE_FIRST,
    )


def _read_of_entry(column: ViewColumn, figures: Mapping[str, Told]) -> ViewColumn:
    read = column.make_reader()
    return replace(
        column, title=None, of=lambda registered: read(figures.get(registered.entry.id, {}))
    )


def _list_subjects(registered: RegisteredExtension) -> Sequence[str]:
    versions = registered.entry.list_versions()
    return [version.subject + ("" if version.enabled else " (off)") for version in versions]


def _describe_state(registered: RegisteredExtension) -> str:
    return "on" if registered.entry.enabled else "off"
