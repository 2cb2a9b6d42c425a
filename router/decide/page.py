"""Decisions with an assignment, the newest first; and why one was made: the recorded decision,
computed again, every stored step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlencode

import orjson

from router.core import ids
from router.core.masking import mask_secrets, shorten
from router.decide.request_steps import find_request_steps
from router.decide.views import REQUEST_STEPS
from router.operate.admin.broadcast import InstanceAnswers, request_from_all
from router.operate.admin.service import ADMIN
from router.shell.page_data import (
    Fact,
    FactList,
    InvalidAddress,
    Page,
    PageParams,
    Sources,
    TextBlock,
    build_command,
)
from router.shell.table import Row, TableFilter
from router.shell.view import View, ViewColumn
from router.work.assignments import StoredAssignment, list_assignments

EXPLAIN_SERVICE = "explain_decision"
WITHIN_S = 2.0
MAX_LOOKED = 2_000  # newest messages of each stream
MAX_SHOWN_TEXT = 2_000  # characters of a part of the request
FILTERS = (
    TableFilter("tenant", "Tenant", "acme"),
    TableFilter("request_id", "Request", "context.request_id of the answer"),
    TableFilter("message_id", "or message id"),
)
SEARCH_FILTERS = (*FILTERS, TableFilter("provider", "Provider", "of decisions with an assignment"))
MAX_LISTED = 500
MAX_SEARCHED = 5_000  # newest assignments
HOW = (
    "No decision with an assignment is stored. One without is found by its tenant and its "
    "request: the `request_id` in the context of the"
    " answer, or the message id."
)
NOTHING = (
    "No step of this request is stored any more, or it never was asked. A decision without "
    "an assignment is recorded only for the tenants"
    " in recorder.tenants."
)


async def read_decisions(sources: Sources, params: PageParams) -> Page:
    """One request of one tenant; without both, the decisions with an assignment that match."""
    tenant, request_id, message_id = (
        params.text(name) for name in ("tenant", "request_id", "message_id")
    )
    if tenant is None or (request_id is None and message_id is None):
        return await _search(sources, params, tenant, request_id or message_id)
    named = request_id or message_id or ""
    _check_ids(tenant, named)
    jetstream, settings = sources.link.jetstream(), sources.settings
    asked = {"tenant_id": tenant, "message_id" if request_id is None else "request_id": named}
    answers = await request_from_all(
        jetstream.connection, settings.admin.api_key, ADMIN + EXPLAIN_SERVICE, asked, WITHIN_S
    )
    search = await find_request_steps(jetstream, settings, tenant, named, look=MAX_LOOKED)
    lists = [part for record in answers.successful[:4] for part in _describe_record(record)] or [
        _explain_absence(answers)
    ]
    by = () if request_id is not None else ("--message-id",)
    return Page(
        title="Decisions",
        lead=f"request {named} of tenant {tenant}",
        command=build_command("router", "decisions", "explain", named, *by, tenant=tenant),
        repair=build_command("router", "request", named, tenant=tenant),
        repair_note="shows the steps alone",
        lists=lists,
        table=REQUEST_STEPS.make_table(
            search.steps, empty=NOTHING, filters=FILTERS, note="  ".join(search.gaps)
        ),
    )


async def _search(
    sources: Sources, params: PageParams, tenant: str | None, named: str | None
) -> Page:
    """Decisions with an assignment: those without are recorded by the routers, and none of them
    lists its records.
    """
    provider, bucket = params.text("provider"), sources.settings.buckets.assignments_known.name
    matching: list[StoredAssignment] = []
    looked = 0
    async for stored in list_assignments(
        sources.link.jetstream(), bucket, tenant=tenant, limit=MAX_SEARCHED
    ):
        looked += 1
        if provider in (None, stored.assignment.provider_id) and named in (
            None,
            stored.assignment.request_id,
        ):
            matching.append(stored)
        if len(matching) == MAX_LISTED:
            break
    note = (
        f"The newest {MAX_LISTED:,}."
        if len(matching) == MAX_LISTED
        else f"Of the newest {looked:,}."
        if looked == MAX_SEARCHED
        else ""
    )
    return Page(
        title="Decisions",
        lead="with an assignment, the newest first; each leads to why",
        command=build_command(
            "router", "decisions", "explain", named or "REQUEST_ID", tenant=tenant or "TENANT"
        ),
        table=DECISIONS.make_table(matching, empty=HOW, filters=SEARCH_FILTERS, note=note),
    )


def _describe_policy(stored: StoredAssignment) -> str:
    named = stored.assignment.decision.metadata
    text = f"{named.get('policy_id', '')}, version {named.get('policy_version', '')}"
    return shorten(text, MAX_SHOWN_TEXT)


def _link_explanation(stored: StoredAssignment) -> Row:
    names = {
        "tenant": stored.assignment.tenant_id or "",
        "request_id": stored.assignment.request_id or "",
    }
    return {"address": "/decisions?" + urlencode(names)}


DECISIONS = View(
    ViewColumn("request_id", None, "Request", "assignment.request_id", kind="id", href="address"),
    ViewColumn("at", None, "At", "stored_at", kind="time"),
    ViewColumn("tenant", None, "Tenant", "assignment.tenant_id"),
    ViewColumn("provider", None, "Provider", "assignment.decision.provider_id"),
    ViewColumn("reason", None, "Reason", "assignment.decision.reason"),
    ViewColumn("policy", None, "Policy", _describe_policy),
    ViewColumn(
        "expected_ms", None, "Expected ms", "assignment.decision.expected_latency_ms", kind="number"
    ),
    ViewColumn("cost", None, "Cost", "assignment.decision.expected_cost", kind="number"),
    links=_link_explanation,
)


def _check_ids(tenant: str, named: str) -> None:
    if not ids.is_scoped(tenant):
        raise InvalidAddress("tenant: an id is A-Z a-z 0-9 _ . : - without . or _ in front")
    if not ids.is_opaque(named):
        raise InvalidAddress(
            "request_id: an id is 1 to 128 printable ASCII characters without spaces"
        )


def _explain_absence(answers: InstanceAnswers) -> FactList:
    if not answers.answers:
        return FactList(
            "The decision",
            [Fact("Not explained", "no router answered: is one running here, with admin.enabled?")],
        )
    texts = dict.fromkeys(
        f"{error.get('code')}: {error.get('message')}" for error in answers.errors
    )
    return FactList("The decision", [Fact("Not explained", text) for text in texts])


def _describe_record(record: Mapping[str, Any]) -> Iterator[FactList | TextBlock]:
    """One instance's record; what another version of a router wrote differently counts as absent."""
    again, policy, request = (_get(record, name) for name in ("reevaluation", "policy", "request"))
    answer = _get(record, "decision") or _get(_get(record, "answer"), "decision")
    at = record.get("at_ms")
    yield FactList(
        "The decision",
        [
            Fact("Provider", _text(answer.get("provider_id"))),
            Fact("Reason", _text(answer.get("reason"))),
            Fact("Refused", _describe_error(_get(record, "error"))),
            Fact(
                "At",
                datetime.fromtimestamp(at / 1000, UTC).isoformat() if isinstance(at, int) else None,
                kind="time",
            ),
            Fact(
                "Policy",
                (
                    f"{policy.get('tenant_id')}/{policy.get('policy_id')}, version "
                    f"{policy.get('version')}"
                )
                if policy
                else None,
            ),
            Fact("On", _text(record.get("router_node_id"))),
            Fact("Computed again", _describe_again(again), kind="verdict"),
            Fact("Uncertain", _text(again.get("uncertainty"))),
        ],
    )
    if trace := again.get("trace"):
        steps = [
            Fact(
                f"{_text(step.get('stage'))} {_text(step.get('subject')) or ''}",
                _text(step.get("verdict")),
            )
            for step in trace[:200]
        ]
        yield FactList("Considered, in this order", steps)
    if states := _get(record, "states"):
        yield TextBlock("Known of the providers then", _dump(states))
    if request:
        yield TextBlock("The request, masked", _dump(request))


def _describe_again(again: Mapping[str, Any]) -> str | None:
    if "unavailable" in again:
        return f"impossible: {again['unavailable']}"
    return (
        {True: "the same", False: "not the same"}.get(bool(again["is_same"]))
        if "is_same" in again
        else None
    )


def _describe_error(error: Mapping[str, Any]) -> str | None:
    return f"{error.get('code')}: {error.get('message')}" if error else None


def _get(fields: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    value = fields.get(name)
    return value if isinstance(value, Mapping) else {}


def _text(value: object) -> str | None:
    return shorten(str(value), MAX_SHOWN_TEXT) if value is not None else None


def _dump(value: object) -> str:
    return shorten(
        orjson.dumps(mask_secrets(value), option=orjson.OPT_INDENT_2).decode(), 4 * MAX_SHOWN_TEXT
    )
