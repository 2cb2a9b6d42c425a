"""`router doctor`: is this broker fit for the router, and what should be done about it?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_lines, print_table
from router.cli.session import open_jetstream, run_client

if TYPE_CHECKING:
    from router.config import Settings
    from router.operations.doctor import Finding

WORST_FIRST = ("fail", "warn", "ok")


def doctor(
    monitor: Annotated[str | None, typer.Option(metavar="URL", help="The server's monitoring port, like http://127.0.0.1:8222.")] = None,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Look at the server, the streams and the consumers; say what is wrong and what to do, the worst first. Changes nothing.

    Exit status: 0 nothing failed (warnings may remain), 1 something failed, 3 no server answers.

    Example:  router doctor --nats-url nats://nats.internal:4222
    """
    run_client(nats_url, config, lambda settings: _examine(settings, monitor, as_json))


async def _examine(settings: Settings, monitor: str | None, as_json: bool) -> int:
    from router.app import declare_topology
    from router.app.inbox_doctor import examine_inbox
    from router.operations.doctor import Verdict, collect, examine

    async with open_jetstream(settings) as jetstream:
        facts = await collect(
            jetstream,
            declare_topology(settings),
            letters=settings.streams.dlq.name,
            max_request=settings.max_payload_bytes,
            cleaned_stream=settings.streams.assignments.name if settings.assignment.removal_every_ms else "",
            monitor=monitor,
        )
        inbox = await examine_inbox(jetstream, settings) if facts.server.has_jetstream else []
    findings = sorted([*examine(facts), *inbox], key=lambda finding: WORST_FIRST.index(finding.verdict.value))
    _print(findings, as_json)
    return exit_codes.NO if any(finding.verdict is Verdict.FAIL for finding in findings) else exit_codes.OK


def _print(findings: list[Finding], as_json: bool) -> None:
    from msgspec import to_builtins

    if as_json:
        print_lines(to_builtins(finding) for finding in findings)
    else:
        print_table(("", "check", "found", "what to do"), ((one.verdict.value, one.check, one.found, one.remedy) for one in findings))
        print(_summarize(findings))


def _summarize(findings: list[Finding]) -> str:
    failed, warned, fine = ([one.verdict.value for one in findings].count(verdict) for verdict in WORST_FIRST)
    return f"{failed} failed, {warned} {'warning' if warned == 1 else 'warnings'}, {fine} ok"
