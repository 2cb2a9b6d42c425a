"""`router request`: the steps of one request, from what is stored of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl, check_request_id
from router.cli.output import print_json, print_table
from router.cli.session import open_jetstream, run_client

if TYPE_CHECKING:
    from router.config import Settings

MAX_READ = 1_000_000


def request(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="The `request_id` in the context of the answer.")],
    *,
    tenant: Annotated[str, typer.Option(help="The tenant of the request.")],
    look: Annotated[int, typer.Option(metavar="N", help="Read the newest N messages of each stream.", min=1, max=MAX_READ)] = 10_000,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one request's steps in order, with times: request, decision, assignment, acknowledgements, result, usage, dead letters.

    It reads the streams and the bucket of assignments; what it did not read, or what is not stored, is listed below. No payload is
    shown. Exit status: 0 something was found, 1 nothing.

    Example:  router request r-42 --tenant acme
    """
    check_request_id(tenant, request_id)
    run_client(nats_url, config, lambda settings: _show(settings, tenant, request_id, look, as_json))


async def _show(settings: Settings, tenant: str, request_id: str, look: int, as_json: bool) -> int:
    from msgspec import to_builtins

    from router.services.request_steps import find_request_steps

    async with open_jetstream(settings) as jetstream:
        found = await find_request_steps(jetstream, settings, tenant, request_id, look=look)
    if as_json:
        print_json({"request_id": request_id, "tenant_id": tenant, **to_builtins(found)})
        return exit_codes.OK if found.steps else exit_codes.NO
    if found.steps:
        print_table(("at", "what", "where", "facts"), ((one.at, one.what, one.where, _format_facts(one.facts)) for one in found.steps))
    else:
        print(f"nothing was found of request {request_id} of tenant {tenant}")
    for gap in found.gaps:
        print(f"not shown  {gap}")
    return exit_codes.OK if found.steps else exit_codes.NO


def _format_facts(facts: Mapping[str, object]) -> str:
    return "  ".join(f"{name}={value}" for name, value in facts.items())
