"""The registered extensions and providers, and how they fared in the last minutes on all instances."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from router.console.page import Page, PageParams, Sources, build_command
from router.console.table import MAX_ROWS, Column, Row, Table
from router.core.errors import RouterError
from router.delivery.buckets.documents import DocumentBucket
from router.operations.admin.broadcast import list_key_headers, request_one
from router.operations.admin.service import ADMIN
from router.services.extension_store import ExtensionStore, RegisteredExtension

HEALTH_SERVICE = "get_extension_health"
COLUMNS = (
    Column("id", "Extension", "id"),
    Column("type", "Type"),
    Column("status", "Health", "verdict"),
    Column("breaker", "Breaker", "verdict"),
    Column("success", "Success", "percent"),
    Column("calls", "Calls", "number"),
    Column("p50", "p50 ms", "number"),
    Column("p99", "p99 ms", "number"),
    Column("state", "State", "verdict"),
    Column("subjects", "Subjects"),
    Column("timeout", "Timeout ms", "number"),
    Column("version", "Version", "number"),
    Column("author", "By"),
)
EMPTY = "No extension is registered. `router extension register FILE` registers one; policies then call it by its id."


async def read_extensions(sources: Sources, _: PageParams) -> Page:
    """The registry, and beside each entry the figures of the last five minutes, if a router answers."""
    jetstream, settings = sources.link.jetstream(), sources.settings
    registered = await ExtensionStore(DocumentBucket(jetstream, settings.buckets.extensions.name)).list()
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
        table=Table(
            columns=COLUMNS,
            rows=[_build_row(one, health.get(one.entry.id, {})) for one in registered[:MAX_ROWS]],
            empty=EMPTY,
            note=f"No figures: {cause}" if cause else "",
        ),
    )


def _read_health(data: bytes) -> tuple[Mapping[str, Mapping[str, Any]], str]:
    try:
        answer = orjson.loads(data)
    except orjson.JSONDecodeError:
        answer = None
    if not isinstance(answer, dict) or not isinstance(answer.get("health"), dict):
        error = answer.get("error") if isinstance(answer, dict) else None
        return {}, f"{error.get('code')}: {error.get('message')}" if isinstance(error, dict) else "the answer cannot be read"
    return {name: one for name, one in answer["health"].items() if isinstance(one, dict)}, ""


def _build_row(one: RegisteredExtension, health: Mapping[str, Any]) -> Row:
    entry, record = one.entry, one.record
    subjects = ", ".join(version.subject + ("" if version.enabled else " (off)") for version in entry.list_versions())
    has_calls = bool(health.get("latency_samples"))
    return {
        "id": entry.id,
        "type": entry.kind,
        "status": (health.get("status") if has_calls else "no calls") if health else None,
        "breaker": health.get("circuit_breaker_state"),
        "success": health.get("success_rate") if has_calls else None,
        "calls": health.get("success_count", 0) + health.get("failure_count", 0) if health else None,
        "p50": health.get("p50_latency_ms") if has_calls else None,
        "p99": health.get("p99_latency_ms") if has_calls else None,
        "state": "on" if entry.enabled else "off",
        "subjects": subjects,
        "timeout": entry.timeout_ms,
        "version": record.version,
        "author": record.author,
    }
