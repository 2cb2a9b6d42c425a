"""`router provider stats`: what a router has learned of providers from the results of assignments."""

from __future__ import annotations

from typing import Annotated

import typer

from router.core import ids
from router.operate.admin.broadcast import request_from_all
from router.operate.admin.service import ADMIN
from router.policies.provider_stats import merge_stats
from router.policies.views import PROVIDERS
from router.shell import exit_codes
from router.shell.broadcast import report_failure
from router.shell.command_frame import CommandSession, command

STATS_SERVICE = "get_provider_stats"


@command()
async def stats(
    session: CommandSession,
    *,
    tenant: Annotated[
        str | None, typer.Option(help="Only this tenant's. Default: every tenant's.")
    ] = None,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long to wait for the instances.", min=0.001
        ),
    ] = 2.0,
) -> int:
    """Show what strategies choose by: latency, success rate, cost, in flight, and the share of
    assignments, of all instances together.

    Share, p50, p95, success and errors are those of the last one to two minutes; cost and score are
    moving averages. Errors are counted by class: whose fault each was. One that says "fails" is
    left out by strategies, but for probes. With --json one object a line. A tenant whose requests
    push no assignment has no figures.

    Exit status: 0 something is known, 1 nothing is, 2 wrong use, 3 no answer.

    Example:  router provider stats --tenant acme
    """
    if tenant is not None and not ids.is_scoped(tenant):
        raise typer.BadParameter(
            "a tenant is an id: A-Z a-z 0-9 _ . : - without . or _ in front", param_hint="--tenant"
        )
    asked = {} if tenant is None else {"tenant_id": tenant}
    connection, key = (await session.open_jetstream()).connection, session.settings.admin.api_key
    answers = await request_from_all(connection, key, ADMIN + STATS_SERVICE, asked, timeout_s)
    if not answers.successful:
        return report_failure(answers)
    rows = merge_stats(answers.successful)
    session.emit(
        rows, PROVIDERS, empty="nothing is known of a provider yet: results of assignments tell"
    )
    if left_out := max(answer["left_out"] for answer in answers.successful):
        exit_codes.complain(f"{left_out} more providers are left out: --tenant shows one tenant's")
    return exit_codes.OK if rows else exit_codes.NO
