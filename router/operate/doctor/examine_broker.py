"""Everything that `router doctor` finds of a broker: what the doctor's checks say, violations of
the last hour, the inbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.mailbox.inbox_finding import examine_inbox
from router.operate.doctor import Finding, ViolationFacts, collect, examine
from router.operate.topology.declared_topology import declare_topology
from router.operate.violations import ViolationReader, add_up

WORST_FIRST = ("fail", "warn", "ok")
Examine = Callable[[JetStream, Settings], Awaitable[list[Finding]]]


async def examine_broker(
    jetstream: JetStream,
    settings: Settings,
    monitors: Sequence[str] = (),
    further: Sequence[Examine] = (),
) -> list[Finding]:
    """The findings, the worst first. `monitors`: URLs of the servers' monitoring ports. `further`:
    examinations of rooms that this one may not import. Changes nothing. Raises BrokerUnavailable.
    """
    facts = await collect(
        jetstream,
        declare_topology(settings),
        letters=settings.streams.dlq.name,
        max_request=settings.max_payload_bytes,
        cleaned_stream=settings.streams.assignments.name
        if settings.assignment.removal_every_ms
        else "",
        monitors=monitors,
        partitioned=settings,
        read_violations=lambda: _read_violations(jetstream, settings.streams.violations.name),
    )
    findings = examine(facts)
    if facts.server.has_jetstream:
        for examine_more in (examine_inbox, *further):
            findings += await examine_more(jetstream, settings)
    return sorted(findings, key=lambda finding: WORST_FIRST.index(finding.verdict.value))


async def _read_violations(jetstream: JetStream, stream: str) -> ViolationFacts:
    """Those of the last hour."""
    groups = await add_up(
        ViolationReader(jetstream, stream).read(datetime.now(UTC) - timedelta(hours=1)),
        ("tenant", "subject", "rule"),
    )
    if not groups:
        return ViolationFacts()
    worst = groups[0]
    return ViolationFacts(
        messages=sum(group.messages for group in groups),
        tenants=len({group.of["tenant"] for group in groups}),
        worst=worst.count,
        **worst.of,
    )
