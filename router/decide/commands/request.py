"""`router request` and `router decisions`: what is stored of one request, and how its decision was
made.
"""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import to_builtins

from router.core.errors import PermissionDenied
from router.decide.request_steps import RequestSteps, find_request_steps
from router.decide.views import REQUEST_STEPS, print_decision_record
from router.operate.admin.broadcast import request_from_all
from router.operate.admin.service import ADMIN
from router.shell import exit_codes
from router.shell.broadcast import report_failure
from router.shell.command_frame import CommandSession, command
from router.shell.options import check_request_id
from router.shell.output import print_json_lines, print_view

MAX_READ = 1_000_000


@command()
async def request(
    session: CommandSession,
    request_id: Annotated[
        str,
        typer.Argument(metavar="REQUEST_ID", help="The `request_id` in the context of the answer."),
    ],
    *,
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")],
    look: Annotated[
        int,
        typer.Option(
            metavar="N", help="Read the newest N messages of each stream.", min=1, max=MAX_READ
        ),
    ] = 10_000,
) -> int:
    """Show one request's steps in order, with times: request, decision, assignment,
    acknowledgements, result, usage, dead letters.

    It reads the streams and the bucket of assignments; what it did not read, or what is not stored,
    is listed below. No payload is shown. Exit status: 0 something was found, 1 nothing, 3 nothing,
    and the broker denied some of the places.

    Example:  router request r-42 --tenant acme
    """
    check_request_id(tenant, request_id)
    search = await find_request_steps(
        await session.open_jetstream(), session.settings, tenant, request_id, look=look
    )
    about = {"request_id": request_id, "tenant_id": tenant}
    session.emit_one(
        {**about, **to_builtins(search)},
        lambda: _print_steps(search, f"request {request_id} of tenant {tenant}"),
    )
    if search.steps:
        return exit_codes.OK
    if search.denied:
        raise PermissionDenied(
            f"{', '.join(search.denied)} could not be read: {next(iter(search.denied.values()))}"
        )
    return exit_codes.NO


def _print_steps(search: RequestSteps, name: str) -> None:
    if search.steps:
        print_view(search.steps, REQUEST_STEPS)
    else:
        print(f"nothing was found of {name}")
    for gap in search.gaps:
        print(f"not shown  {gap}")


EXPLAIN_SERVICE = "explain_decision"


@command()
async def explain(
    session: CommandSession,
    request_id: Annotated[
        str,
        typer.Argument(metavar="REQUEST_ID", help="The `request_id` in the context of the answer."),
    ],
    *,
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")],
    by_message: Annotated[
        bool, typer.Option("--message-id", help="The given id is the message id.")
    ] = False,
    timeout_s: Annotated[
        float,
        typer.Option(
            "--timeout", metavar="SECONDS", help="How long to wait for the instances.", min=0.001
        ),
    ] = 2.0,
) -> int:
    """Explain one decision: what was known when it was made, which providers were considered, why
    the others were excluded.

    It is computed again by the same version of its policy, and the result says whether it is the
    same. Recorded are the tenants that the setting `recorder.tenants` names, by the instance that
    decided; with --json one record a line, as that instance sent it.

    Exit status: 0 explained, 1 not recorded, or the result is not the same again, 2 wrong use, 3 no
    answer.

    Example:  router decisions explain r-42 --tenant acme
    """
    check_request_id(tenant, request_id)
    asked = {"tenant_id": tenant, "message_id" if by_message else "request_id": request_id}
    connection = (await session.open_jetstream()).connection
    answers = await request_from_all(
        connection, session.settings.admin.api_key, ADMIN + EXPLAIN_SERVICE, asked, timeout_s
    )
    if not answers.successful:
        return report_failure(answers)
    records = sorted(answers.successful, key=lambda record: -record["at_ms"])
    if session.as_json:
        print_json_lines(records)
    else:
        for record in records:
            print_decision_record(record)
    return (
        exit_codes.OK
        if all(record["reevaluation"].get("is_same", True) for record in records)
        else exit_codes.NO
    )
