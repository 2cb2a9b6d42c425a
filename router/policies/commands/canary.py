"""`router policy canary`: try a policy on a few requests, or on none as a shadow, and let the
figures decide.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from msgspec import to_builtins

from router.contracts.canary import GUARDED, MAX_SHARE, CanaryGuard, CanaryPlan
from router.core.errors import Poison
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.server_clock import ServerClock
from router.policies.commands.list_show import Name, Tenant, open_audited_store, open_store, refuse
from router.policies.model import PolicyError
from router.policies.model.canaries import (
    CanaryTotals,
    GuardError,
    add_totals,
    parse_guard,
    parse_span_ms,
)
from router.policies.model.canaries.verdict import describe_shadow, judge, list_findings
from router.policies.model.canary import ArmRecord, read_canary_record
from router.policies.model.measurements import find_percentile
from router.policies.store import StoredPolicy, check_policy
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import Author, choose_author, read_bytes
from router.shell.view import View, ViewColumn

Fields = dict[str, Any]


@command()
async def start(
    session: CommandSession,
    tenant: Tenant,
    name: Name,
    file: Annotated[
        Path,
        typer.Argument(
            metavar="FILE", help="The candidate; - reads standard input.", dir_okay=False
        ),
    ],
    *,
    share: Annotated[
        float,
        typer.Option(
            "--share", metavar="PERCENT", help="Of requests and of sessions.", min=0.01, max=50.0
        ),
    ] = 5.0,
    guard: Annotated[
        list[str] | None,
        typer.Option(
            "--guard",
            metavar="FIGURE<=FACTORx",
            help="error_rate<=1.2x, p95_latency<=1.2x; may be repeated.",
        ),
    ] = None,
    span: Annotated[
        str, typer.Option("--for", metavar="TIME", help="At most so long: 30s, 10m, 1h, 7d.")
    ] = "1h",
    min_results: Annotated[
        int,
        typer.Option(
            "--min-results",
            metavar="N",
            help="Fewer outcomes of the candidate promote nothing.",
            min=1,
            max=1_000_000,
        ),
    ] = 100,
    shadow: Annotated[
        bool, typer.Option("--shadow", help="Decide beside every request, and use nothing of it.")
    ] = False,
    author: Author = None,
) -> int:
    """Begin a canary: the candidate decides a share of the requests until the figures decide.
    Without --guard both are guarded.

    It is promoted when every guard holds for certain, or when its time is over and no guard is
    broken; it is rolled back as soon as a guard is broken for certain, or when its time is over
    with fewer than --min-results outcomes. Either is a new version of the policy, whose note in
    `history` says why. A policy has one canary at a time; `put`, `rollback` and `delete` end it.

    Exit status: 0 it has begun, 1 refused: the document is wrong, there is no such policy, or it
    has a canary.

    Example:  router policy canary start acme default ./candidate.json --share 5 --guard 'error_rate<=1.2x' --for 1h
    """
    document = read_bytes(file, "FILE")
    guards = () if shadow else _read_guards(guard)
    span_ms = _read_span(span)
    try:
        parsed = check_policy(document, tenant, name)
        until_ms = await _read_now_ms(session) + span_ms
        plan = _build_plan(
            parsed.document, 100.0 if shadow else share, guards, until_ms, min_results, shadow
        )
        version = await (await open_audited_store(session)).start_canary(
            tenant, name, plan, author=choose_author(author)
        )
    except PolicyError as exc:
        return refuse(exc, str(file), session.as_json)
    fields = {
        "ok": True,
        "tenant": tenant,
        "policy": name,
        "version": version,
        **_list_plan_fields(plan),
    }
    what = (
        "a shadow decides beside every request"
        if shadow
        else f"the candidate decides {share:g} % of the requests"
    )
    session.emit_one(
        fields, f"{tenant}/{name} version {version}: {what} until {_format_ms(until_ms)}"
    )
    return exit_codes.OK


@command()
async def status(session: CommandSession, tenant: Tenant, name: Name) -> int:
    """Show the canary of a policy: what was counted of both arms, the state of each guard; of a
    shadow, how many decisions differ.

    Exit status: 0 shown, 1 there is none: `router policy history` says what became of the last one.

    Example:  router policy canary status acme default
    """
    stored = await (await open_store(session)).get(tenant, name)
    if stored.record.canary is None:
        return exit_codes.refuse(
            f"{tenant}/{name} has no canary; `router policy history {tenant} {name}` says "
            "what became of the last one"
        )
    totals = await _read_totals(session, stored)
    fields = _list_status_fields(stored, stored.record.canary, totals, await _read_now_ms(session))
    session.emit_one(fields, lambda: _print_status(stored.record.canary, fields, totals))
    return exit_codes.OK


@command()
async def list_(
    session: CommandSession,
    *,
    tenant: Annotated[str | None, typer.Option(help="Only this tenant's own.")] = None,
) -> None:
    """List the canaries that run; with --json one object a line. Exit status 0.

    Example:  router policy canary list
    """
    canaries = [
        stored
        for stored in await (await open_store(session)).list(tenant)
        if stored.record.canary is not None
    ]
    now_ms = await _read_now_ms(session)
    rows = [
        _list_status_fields(
            stored, stored.record.canary, await _read_totals(session, stored), now_ms
        )
        for stored in canaries
        if stored.record.canary is not None
    ]
    session.emit(rows, CANARIES, empty="no canary runs")


@command()
async def abort(
    session: CommandSession, tenant: Tenant, name: Name, *, author: Author = None
) -> int:
    """End a canary now: the version in force before it is in force again, as a new version.

    Exit status: 0 it is ended, 1 there is none, or it ended meanwhile.

    Example:  router policy canary abort acme default
    """
    policies, who = await open_audited_store(session), choose_author(author)
    stored = await policies.store.get(tenant, name)
    if stored.record.canary is None:
        return exit_codes.refuse(f"{tenant}/{name} has no canary")
    version = await policies.abort_canary(tenant, name, stored.record.version, author=who)
    session.emit_one(
        {"ok": True, "tenant": tenant, "policy": name, "version": version},
        f"{tenant}/{name} version {version}: aborted",
    )
    return exit_codes.OK


async def _read_now_ms(session: CommandSession) -> int:
    """The server's time, by which the routers judge. Raises BrokerUnavailable."""
    clock = ServerClock(
        await session.open_jetstream(), f"KV_{session.settings.buckets.policies.name}"
    )
    await clock.read()
    return round(clock() * 1000)


def _read_guards(texts: list[str] | None) -> tuple[CanaryGuard, ...]:
    try:
        guards = [parse_guard(text) for text in texts or [f"{figure}<=1.2x" for figure in GUARDED]]
    except GuardError as exc:
        raise typer.BadParameter(str(exc), param_hint="--guard") from None
    if len({guard.figure for guard in guards}) < len(guards):
        raise typer.BadParameter("names a figure twice", param_hint="--guard")
    return tuple(guards)


def _read_span(text: str) -> int:
    try:
        return parse_span_ms(text)
    except GuardError as exc:
        raise typer.BadParameter(str(exc), param_hint="--for") from None


def _build_plan(  # noqa: PLR0917 - one call
    document: object,
    share: float,
    guards: tuple[CanaryGuard, ...],
    until_ms: int,
    min_results: int,
    is_shadow: bool,
) -> CanaryPlan:
    return CanaryPlan(
        document=dict(document),  # type: ignore[call-overload]
        share=min(share, MAX_SHARE),
        guards=guards,
        until_ms=until_ms,
        min_results=min_results,
        is_shadow=is_shadow,
    )


async def _read_totals(session: CommandSession, stored: StoredPolicy) -> CanaryTotals:
    """What all instances have counted. Raises BrokerUnavailable."""
    records = []
    for key, entry in (
        await DocumentBucket(
            await session.open_jetstream(), session.settings.buckets.canaries.name
        ).read_all()
    ).items():
        try:
            record = read_canary_record(key, entry.value)
        except Poison:
            continue
        if (record.tenant_id, record.policy_id, record.version) == (
            stored.tenant_id,
            stored.policy_id,
            stored.record.version,
        ):
            records.append(record)
    return add_totals(records)


def _list_plan_fields(plan: CanaryPlan) -> Fields:
    shared: Fields = {"until": _format_ms(plan.until_ms), "is_shadow": plan.is_shadow}
    if plan.is_shadow:
        return shared
    return {
        **shared,
        "share": plan.share,
        "guards": [str(guard) for guard in plan.guards],
        "min_results": plan.min_results,
    }


def _list_status_fields(
    stored: StoredPolicy, plan: CanaryPlan, totals: CanaryTotals, now_ms: int
) -> Fields:
    named: Fields = {
        "tenant": stored.tenant_id,
        "policy": stored.policy_id,
        "version": stored.record.version,
        **_list_plan_fields(plan),
    }
    if plan.is_shadow:
        return {
            **named,
            "shadow": to_builtins(totals.shadow),
            "state": describe_shadow(totals.shadow),
        }
    findings: list[Fields] = [
        {
            "guard": str(finding.guard),
            "is_broken": finding.is_broken,
            "holds": finding.holds,
            "why": finding.text,
        }
        for finding in list_findings(plan, totals)
    ]
    verdict, why = judge(plan, totals, now_ms)
    arms = {
        "control": _list_arm_fields(totals.control),
        "candidate": _list_arm_fields(totals.candidate),
    }
    return {**named, **arms, "findings": findings, "state": verdict.value, "why": why}


def _list_arm_fields(arm: ArmRecord) -> Fields:
    p95 = find_percentile(arm.latencies, 0.95)
    return {
        "outcomes": arm.outcomes,
        "errors": arm.errors,
        **({} if p95 is None else {"p95_latency_ms": round(p95, 1)}),
    }


def _print_status(plan: CanaryPlan | None, fields: Fields, totals: CanaryTotals) -> None:
    head = (
        f"{fields['tenant']}/{fields['policy']} version {fields['version']}, until "
        f"{fields['until']}: "
    )
    if plan is None or plan.is_shadow:
        print(f"{head}shadow; {fields['state']}")
        return
    print(f"{head}{fields['state']}")
    for name, arm in (("candidate", totals.candidate), ("control", totals.control)):
        print(f"  {name}: {arm.outcomes} outcomes, {arm.errors} errors")
    print(f"  {fields['why']}")


def _format_ms(at_ms: int) -> str:
    return datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="seconds")


def _describe_share(fields: Fields) -> str:
    return f"{fields['share']:g} %" if "share" in fields else "shadow"


CANARIES = View(
    ViewColumn("tenant"),
    ViewColumn("policy"),
    ViewColumn("version"),
    ViewColumn("share", of=_describe_share),
    ViewColumn("ends", of="until"),
    ViewColumn("outcomes", of="candidate.outcomes"),
    ViewColumn("state"),
)
