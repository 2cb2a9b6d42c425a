"""`router doctor`: is this broker fit for the router, and what should be done about it?"""

from __future__ import annotations

from router.gateway.keys.finding import examine_keys
from router.operate.doctor import Finding, Verdict
from router.operate.doctor.examine_broker import examine_broker
from router.operate.views import FINDINGS
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import Monitors

WORST_FIRST = ("fail", "warn", "ok")  # the order of the summary


@command()
async def doctor(session: CommandSession, monitor: Monitors = None) -> int:
    """Look at the server, the streams, the consumers and the keys; say what is wrong and what to
    do, the worst first. Changes nothing.

    Exit status: 0 nothing failed (warnings may remain), 1 something failed, 3 no server answers.

    Example:  router doctor --nats-url nats://nats.internal:4222
    """
    settings = session.settings
    findings = await examine_broker(
        await session.open_jetstream(),
        settings,
        monitor or settings.nats.monitor,
        further=(examine_keys,),
    )
    session.emit(findings, FINDINGS, empty="")
    if not session.as_json:
        print(_summarize(findings))
    return (
        exit_codes.NO
        if any(finding.verdict is Verdict.FAIL for finding in findings)
        else exit_codes.OK
    )


def _summarize(findings: list[Finding]) -> str:
    failed, warned, fine = (
        [finding.verdict.value for finding in findings].count(verdict) for verdict in WORST_FIRST
    )
    return f"{failed} failed, {warned} {'warning' if warned == 1 else 'warnings'}, {fine} ok"
