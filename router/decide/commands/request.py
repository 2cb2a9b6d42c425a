"""`router request`: the steps of one request, from what is stored of it."""

from __future__ import annotations

from typing import Annotated

import typer
from msgspec import to_builtins

from router.core.errors import PermissionDenied
from router.decide.request_steps import RequestSteps, find_request_steps
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import check_request_id
from router.shell.output import print_table

MAX_READ = 1_000_000
COLUMNS = ("at", "what", "where", "facts")


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
    found = await find_request_steps(
        await session.open_jetstream(), session.settings, tenant, request_id, look=look
    )
    about = {"request_id": request_id, "tenant_id": tenant}
    session.emit_one(
        {**about, **to_builtins(found)},
        lambda: _print_steps(found, f"request {request_id} of tenant {tenant}"),
    )
    if found.steps:
        return exit_codes.OK
    if found.denied:
        raise PermissionDenied(
            f"{', '.join(found.denied)} could not be read: {next(iter(found.denied.values()))}"
        )
    return exit_codes.NO


def _print_steps(found: RequestSteps, name: str) -> None:
    if found.steps:
        facts = (
            "  ".join(f"{name}={value}" for name, value in one.facts.items()) for one in found.steps
        )
        print_table(
            COLUMNS,
            (
                (one.at, one.what, one.where, shown)
                for one, shown in zip(found.steps, facts, strict=True)
            ),
        )
    else:
        print(f"nothing was found of {name}")
    for gap in found.gaps:
        print(f"not shown  {gap}")
