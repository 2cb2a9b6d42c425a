"""What a view shows of the same records: in a terminal, as JSON, in the console's table.

`views.json` keeps it. After a change on purpose `python -m tests.cli.test_views --write` writes the
file anew; what differs is what people will see.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from enum import Enum
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace as Known
from types import UnionType
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

import pytest
from msgspec import Struct, to_builtins
from msgspec.structs import replace

from router.config.describe import Row as Setting
from router.config.views import SETTINGS
from router.contracts.assignment_record import AssignmentAcknowledgement
from router.contracts.heartbeat import Heartbeat
from router.contracts.version_record import VersionRecord
from router.decide.request_steps import RequestStep
from router.decide.views import REQUEST_STEPS
from router.delivery.kv.versioned_store import Change
from router.delivery.wire.topology import Difference
from router.extensions.model import parse_entry
from router.extensions.store import RegisteredExtension
from router.extensions.views import HEALTH, list_figures, make_extensions_view
from router.gateway.keys.model.api_key import ApiKey
from router.gateway.keys.store import StoredKey
from router.gateway.keys.views import KEYS
from router.lake.views import make_usage_view
from router.operate.dead_letters import (
    DeadLetter,
    DeadLetterGroup,
    DeadLetterHead,
    DeadLetterSource,
)
from router.operate.dead_letters.heads import HeadFault
from router.operate.doctor.facts import Finding, Verdict
from router.operate.views import (
    APPLIED,
    DEAD_LETTERS,
    FINDINGS,
    TOPOLOGY,
    DeclaredPart,
    make_groups_view,
    make_violations_view,
)
from router.operate.violations import ViolationGroup
from router.policies.model.policy import RateLimit
from router.policies.store import StoredPolicy
from router.policies.views import HISTORY, POLICIES, PROVIDERS
from router.shell.table import Table, write_csv
from router.shell.view import View, ViewColumn
from router.work.assignments import StoredAssignment
from router.work.model import TrackedWorker, WorkerCondition
from router.work.views import make_assignments_view, make_workers_view

STORED_KEYS = tuple(
    StoredKey(
        ApiKey(
            key_id=str(number) * 12,
            tenant_id="acme",
            secret_sha256="5" * 64,
            created_ms=1_700_000_000_000,
            **fields,
        ),
        VersionRecord(version=1, author="ann", time="2026-11-29", hash="h", document={}),
    )
    for number, fields in enumerate(
        (
            {},
            {"name": "billing", "expires_ms": 4_000_000_000_000, "replaced_by": "2" * 12},
            {"expires_ms": 1_700_000_000_001, "policies": ("cheap", "default")},
            {"rate": RateLimit(0.5, 7), "replaces": "1" * 12},
        )
    )
)
FILE = Path(__file__).with_name("views.json")
AT = "2026-11-29T10:11:12.123456Z"
LETTERS = (
    DeadLetter(
        sequence=17,
        stored_at=AT,
        subject="x",
        original_subject="router.decide",
        reason="processing_error",
        code="no_provider",
        field="tenant_id",
        tenant_id="acme",
        msg_id="m-1",
        headers={"a": ["b"]},
        source=DeadLetterSource(),
        payload=b'{"x":1}',
        raw=b"{}",
    ),
    DeadLetter(
        sequence=18,
        stored_at=AT,
        subject="x",
        original_subject="s",
        reason="unreadable",
        source=DeadLetterSource(),
        raw=b"{}",
    ),
)
ACKS = [b"$JS.ACK.S.C.1.%d.1.1795947072123456789.0" % sequence for sequence in (17, 18)]
UNREADABLE = DeadLetterHead(
    reason="unreadable",
    original_subject="router.decide",
    ack_subject=ACKS[1],
    subject="dlq.s",
    size=12,
)
HEADS = (
    DeadLetterHead(
        reason="processing_error",
        original_subject="router.decide",
        tenant_id="acme",
        last_error=HeadFault("c", "f"),
        ack_subject=ACKS[0],
        subject="dlq.s",
        size=512,
    ),
    UNREADABLE,
)
FOUND = (Finding("streams", Verdict.OK, "fine"), Finding("room", Verdict.FAIL, "full", "make room"))
GROUPS = (
    ViolationGroup({"tenant": "acme", "header": "trace_id"}, 3, 2, AT, AT, 9, "m-1"),
    ViolationGroup({"tenant": "–", "header": "h"}, 1, 1, AT, AT, 10),
)
RECORD = VersionRecord(version=3, author="ann", time=AT, hash="0123456789abcdef", document={})
CHANGES = [
    *(Change(StoredPolicy("acme", "default", replace(RECORD, version=one)), 5) for one in (1, 4)),
    Change(None, 1795947072123456789),
]
CAUSES = [
    DeadLetterGroup(("router.decide", "unreadable", code), AT, 1, AT, 9, 3, 1_234_567)
    for code in (None, "no_provider")
]
DIFFERENCES = [
    Difference("stream", "ROUTER_DECIDE", "drifted", {"max_age": (1, 2), "replicas": (3, 1)}),
    Difference("consumer", "ROUTER_DECIDE/router", "missing"),
    Difference("stream", "ROUTER_USAGE", "paused", {}, "paused until noon"),
]
INFO = {"state": {"messages": 4, "bytes": 9}, "config": {"max_bytes": -1, "num_replicas": 3}}
PARTS = [
    DeclaredPart("stream", "ROUTER_DECIDE", DIFFERENCES[0], INFO),
    DeclaredPart("bucket", "KV_POLICIES", None, {**INFO, "config": {"max_bytes": 7}}),
    DeclaredPart("consumer", "ROUTER_DECIDE/router", DIFFERENCES[1]),
]
GIVEN = [Setting("nats.url", "tls://n", "nats://", "file", "where"), Setting("a", "", "", "b", "")]
STEPS = [RequestStep(at=AT, what="request", where="ROUTER_DECIDE 7", facts={"a": 1, "b": "c"})]
ENTRY = {"id": "pii", "type": "pre", "subject": "beamline.ext.pre.pii.v1", "timeout_ms": 200}
REGISTERED = [
    RegisteredExtension(parse_entry({**ENTRY, **more}), RECORD)
    for more in ({}, {"id": "b", "subject": "beamline.ext.pre.b.v1", "enabled": False})
]
CALLED = {
    "status": "healthy",
    "latency_samples": 3,
    "success_rate": 0.987,
    "success_count": 2,
    "failure_count": 1,
    "p50_latency_ms": 1.26,
    "p99_latency_ms": 3.14159,
    "circuit_breaker_state": "closed",
}
CALLS = {"pii": CALLED, "b": {**CALLED, "latency_samples": 0, "failure_count": 0}}
TOLD = [
    {"id": name, **list_figures(told), "services": one, "nodes": ["n-2", "n-1"]}
    for (name, told), one in zip(CALLS.items(), (2, 0), strict=True)
]
USAGE = [
    Known(
        group={"day": "2026-11-29", "tenant_id": "acme"},
        count=12345,
        cost=Decimal("1234.5"),
        all_figures={"input_tokens": 1000, "estimated_cost": Decimal("0.5")},
        error_rate=0.125,
        percentiles={f"latency_{name}_ms": value for name in ("p50", "p95", "p99")},
    )
    for value in (1234.5, None)
]
PROVIDER = {"tenant_id": "acme", "in_flight": 2, "errors": {}, "is_failing": False}
FIGURES = {
    "share": 0.12345,
    "p50_latency_ms": 12.34567,
    "p95_latency_ms": 0.00012,
    "cost": 0.0001234,
    "score": 1.23456,
    "silent_s": 3.4,
    "errors": {"timeout": 2},
    "is_failing": True,
}
STATS = (
    {**PROVIDER, **FIGURES, "provider_id": "a", "samples": 9, "success_rate": 0.98765},
    {**PROVIDER, "provider_id": "b", "samples": 0, "success_rate": 0.0},
    {**PROVIDER, "provider_id": "c", "samples": 1, "success_rate": 0, "recent_success_rate": 0.1},
)
ASSIGNMENT = Known(
    assignment_id="a-1",
    request_id="r",
    tenant_id="acme",
    trace_id=None,
    job_type="chat",
    provider_id="p",
)
REJECTED = Known(status="rejected", message="no room", at_ms=1795947072123)
ASSIGNED = [
    StoredAssignment(
        cast(Any, None), cast(Any, ASSIGNMENT), AT, cast(AssignmentAcknowledgement | None, ack)
    )
    for ack in (None, REJECTED)
]
BUSY = Heartbeat(
    worker_id="w1",
    status="busy",
    timestamp=7,
    load=0.256,
    capacity=4,
    interval_ms=5000,
    tenant_id="acme",
)
IDLE = Heartbeat(worker_id="w2", status="idle", timestamp=7)
WORKERS = (
    (TrackedWorker(BUSY, 100.25), WorkerCondition.BUSY),
    (TrackedWorker(IDLE, 10.0), WorkerCondition.SILENT),
)
SHOWN: dict[str, tuple[View, Any, Any]] = {
    "dead letters": (DEAD_LETTERS, LETTERS, HEADS),
    "findings": (FINDINGS, FOUND, FOUND),
    "violations": (make_violations_view(["tenant", "header"]), GROUPS, GROUPS),
    "policies": (POLICIES, *[[StoredPolicy("acme", "default", RECORD)]] * 2),
    "providers": (PROVIDERS, STATS, STATS),
    "assignments": (make_assignments_view(reads_acknowledgements=True), ASSIGNED, ASSIGNED),
    "assignments without acknowledgements": (
        make_assignments_view(reads_acknowledgements=False),
        ASSIGNED,
        ASSIGNED,
    ),
    "workers": (make_workers_view(103.777), WORKERS, WORKERS),
    "causes": (make_groups_view(("subject", "reason", "code")), CAUSES, CAUSES),
    "topology": (TOPOLOGY, DIFFERENCES, PARTS),
    "applied topology": (APPLIED, DIFFERENCES[:2], ()),
    "settings": (SETTINGS, GIVEN, GIVEN),
    "policy history": (HISTORY, CHANGES, CHANGES),
    "steps of a request": (REQUEST_STEPS, STEPS, STEPS),
    "extensions": (make_extensions_view(CALLS), REGISTERED, REGISTERED),
    "keys": (KEYS, STORED_KEYS, STORED_KEYS),
    "health of extensions": (HEALTH, TOLD, ()),
    "usage": (
        make_usage_view(("day", "tenant_id"), "USD", ("input_tokens", "estimated_cost")),
        USAGE,
        USAGE,
    ),
}


def show(name: str) -> Any:
    """Return all that people and programs see of the records of one view."""
    view, told, paged = SHOWN[name]
    rows = [view.build_row(record) for record in paged]
    shown = {
        "titles": view.titles,
        "cells": [[str(cell) for cell in view.list_cells(record)] for record in told],
        "fields": [view.fields(record) for record in told if not isinstance(record, Known)],
        "columns": to_builtins(view.page_columns),
        "rows": [{key: cell for key, cell in row.items() if cell is not None} for row in rows],
    }
    return json.loads(json.dumps(shown))


def write_file(path: Path) -> None:
    shown = {name: show(name) for name in SHOWN}
    path.write_text(json.dumps(shown, indent=1, sort_keys=True, ensure_ascii=False) + "\n")


def list_lacking(view: View, records: Iterable[object], medium: str) -> Iterator[str]:
    """List what a column names, and a kind of record does not have. `medium`: `title` or `label`."""
    kinds = dict.fromkeys(type(one) for one in records if isinstance(one, Struct))
    for column in view.columns:
        if getattr(column, medium) is None or callable(column.of):
            continue
        for kind in kinds:
            yield from _follow(kind, (column.of or column.key).split("."))


def _follow(kind: Any, path: list[str]) -> Iterator[str]:
    if get_origin(kind) in (Union, UnionType):
        kind = next(part for part in get_args(kind) if part is not type(None))
    if not path or not isinstance(kind, type) or issubclass(kind, (Enum, Mapping)):
        return
    name, *rest = path
    if not hasattr(kind, name):
        yield f"{kind.__name__} has no {name}"
    elif rest:
        yield from _follow(get_type_hints(kind).get(name), rest)


@pytest.mark.parametrize("name", SHOWN)
def test_a_view_shows_what_it_showed_before(name: str) -> None:
    assert show(name) == json.loads(FILE.read_text())[name]


@pytest.mark.parametrize("name", SHOWN)
def test_each_kind_of_record_has_what_the_columns_name(name: str) -> None:
    view, told, paged = SHOWN[name]
    assert [*list_lacking(view, told, "title"), *list_lacking(view, paged, "label")] == []


def test_each_view_that_pages_share_is_shown_here() -> None:
    rooms = [path.parent.name for path in (FILE.parents[2] / "router").glob("*/views.py")]
    assert "operate" in rooms
    found = [
        (f"router.{room}.views.{name}", view)
        for room in rooms
        for name, view in vars(import_module(f"router.{room}.views")).items()
        if isinstance(view, View) and view.page_columns
    ]
    shown = {id(view) for view, *_ in SHOWN.values()}
    assert [name for name, view in found if id(view) not in shown] == []


def test_what_a_record_lacks_is_named() -> None:
    """So nothing is forgotten: `router dlq list` and the console list two kinds of records."""
    tries = ViewColumn("tries", label="Tries", of="source.tries")
    assert [*list_lacking(View(tries), LETTERS, "title")] == ["DeadLetterSource has no tries"]
    assert [*list_lacking(View(tries), HEADS, "label")] == ["DeadLetterHead has no source"]


def test_the_written_file_is_the_kept_one(tmp_path: Path) -> None:
    write_file(tmp_path / "views.json")
    assert (tmp_path / "views.json").read_bytes() == FILE.read_bytes()


def test_a_column_of_both_is_added_in_one_place() -> None:
    view = View(*DEAD_LETTERS.columns, ViewColumn("kept_on", label="Kept on", of="subject"))
    assert [*view.titles][-1] == "kept on"
    assert [*view.list_cells(LETTERS[0])][-1] == "x"
    table = Table(columns=view.page_columns, rows=[view.build_row(HEADS[0])], empty="")
    header, line = write_csv(table, table.rows).splitlines()
    assert (header.split(",")[-1], line.split(",")[-1]) == ("kept_on", "dlq.s")


if __name__ == "__main__" and "--write" in sys.argv:
    write_file(FILE)
