"""`router request`: one request's way, from what is kept of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson, ConfigFile, NatsUrl, check_request_id
from router.cli.output import print_json, print_table
from router.cli.session import jetstream_of, settings_of

if TYPE_CHECKING:
    from router.config import Settings

MOST = 1_000_000


def request(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="The `request_id` in the context of the answer.")],
    *,
    tenant: Annotated[str, typer.Option(help="Whose request it was.")],
    look: Annotated[int, typer.Option(metavar="N", help="Of each stream the newest N messages are read.", min=1, max=MOST)] = 10_000,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show one request's way in order, with times: request, decision, assignment, acknowledgements, result, usage, dead letters.

    Read are the streams and the bucket of assignments; what was not read, or is not kept, stands below. No payload is shown.
    Exit status: 0 something was found, 1 nothing.

    Example:  router request r-42 --tenant acme
    """
    check_request_id(tenant, request_id)
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    ends.run(_show(settings, tenant, request_id, look, as_json))


async def _show(settings: Settings, tenant: str, request_id: str, look: int, as_json: bool) -> int:
    from msgspec import to_builtins

    from router.app.request_steps import find_request_steps

    async with jetstream_of(settings) as jetstream:
        found = await find_request_steps(jetstream, settings, tenant, request_id, look=look)
    if as_json:
        print_json({"request_id": request_id, "tenant_id": tenant, **to_builtins(found)})
        return ends.OK if found.steps else ends.NO
    if found.steps:
        print_table(("at", "what", "where", "facts"), ((one.at, one.what, one.where, _told(one.facts)) for one in found.steps))
    else:
        print(f"nothing was found of request {request_id} of tenant {tenant}")
    for gap in found.gaps:
        print(f"not shown  {gap}")
    return ends.OK if found.steps else ends.NO


def _told(facts: Mapping[str, object]) -> str:
    return "  ".join(f"{name}={value}" for name, value in facts.items())
