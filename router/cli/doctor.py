"""`router doctor`: is this broker fit for the router, and what should be done about it?"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli import exit_codes
from router.cli.command import CommandSession, command
from router.cli.options import Monitors

if TYPE_CHECKING:
    from router.delivery.api import JetStream
    from router.operations.doctor import Finding, ViolationFacts

WORST_FIRST = ("fail", "warn", "ok")
COLUMNS = ("", "check", "found", "what to do")


@command()
async def doctor(
    session: CommandSession,
    monitor: Monitors = None,
) -> int:
    """Look at the server, the streams and the consumers; say what is wrong and what to do, the worst first. Changes nothing.

    Exit status: 0 nothing failed (warnings may remain), 1 something failed, 3 no server answers.

    Example:  router doctor --nats-url nats://nats.internal:4222
    """
    from router.app import declare_topology
    from router.app.inbox_rules import examine_inbox
    from router.operations.doctor import PartitionedSubject, Verdict, collect, examine

    settings, jetstream = session.settings, await session.open_jetstream()
    facts = await collect(
        jetstream,
        declare_topology(settings),
        letters=settings.streams.dlq.name,
        max_request=settings.max_payload_bytes,
        cleaned_stream=settings.streams.assignments.name if settings.assignment.removal_every_ms else "",
        monitors=monitor or settings.nats.monitor,
        partitioned=PartitionedSubject(
            subject=settings.decide.subject,
            stream=settings.streams.decide.name,
            durable=settings.decide.durable,
            bucket=settings.buckets.partitions.name,
            lease=settings.decide.lease_ms / 1000,
        ),
        read_violations=lambda: _read_violations(jetstream, settings.streams.violations.name),
    )
    inbox = await examine_inbox(jetstream, settings) if facts.server.has_jetstream else []
    findings = sorted([*examine(facts), *inbox], key=lambda finding: WORST_FIRST.index(finding.verdict.value))
    session.emit(findings, COLUMNS, lambda one: (one.verdict.value, one.check, one.found, one.remedy), empty="")
    if not session.as_json:
        print(_summarize(findings))
    return exit_codes.NO if any(finding.verdict is Verdict.FAIL for finding in findings) else exit_codes.OK


async def _read_violations(jetstream: JetStream, stream: str) -> ViolationFacts:
    """Those of the last hour."""
    from datetime import UTC, datetime, timedelta

    from router.operations.doctor import ViolationFacts
    from router.operations.violations import add_up, read_since

    groups = await add_up(read_since(jetstream, stream, datetime.now(UTC) - timedelta(hours=1)), ("tenant", "subject", "rule"))
    if not groups:
        return ViolationFacts()
    worst = groups[0]
    return ViolationFacts(
        messages=sum(group.messages for group in groups),
        tenants=len({group.of["tenant"] for group in groups}),
        worst=worst.count,
        **worst.of,
    )


def _summarize(findings: list[Finding]) -> str:
    failed, warned, fine = ([one.verdict.value for one in findings].count(verdict) for verdict in WORST_FIRST)
    return f"{failed} failed, {warned} {'warning' if warned == 1 else 'warnings'}, {fine} ok"
