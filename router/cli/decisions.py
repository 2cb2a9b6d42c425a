"""`router decisions`: how a decision came about, told by the instance that recorded it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.everyone import ask_everyone, complain_of
from router.cli.options import AsJson, ConfigFile, NatsUrl, check_request_id
from router.cli.output import print_lines
from router.cli.session import jetstream_of, settings_of

if TYPE_CHECKING:
    from router.config import Settings

decisions = typer.Typer(no_args_is_help=True, help="Decisions that were recorded, explained.", rich_markup_mode="rich")

SERVICE = "explain_decision"


@decisions.callback()
def _group() -> None:
    """One command so far; it keeps its name."""


@decisions.command()
def explain(
    request_id: Annotated[str, typer.Argument(metavar="REQUEST_ID", help="The `request_id` in the context of the answer.")],
    *,
    tenant: Annotated[str, typer.Option(help="Whose request it was.")],
    by_message: Annotated[bool, typer.Option("--message-id", help="What is given is the message id.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="How long to wait for the instances.", min=0.001)] = 2.0,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Explain one decision: what was known when it was made, who was considered, why the others fell.

    It is computed again by the same version of its policy, and said to be the same or not. Recorded are the tenants that the
    setting `recorder.tenants` names, by the instance that decided; with --json one record a line, as that instance told it.

    Exit status: 0 explained, 1 not recorded, or it does not come out the same again, 2 wrong use, 3 no answer.

    Example:  router decisions explain r-42 --tenant acme
    """
    check_request_id(tenant, request_id)
    with ends.errors_told():
        settings = settings_of(nats_url, config)
    asked = {"tenant_id": tenant, "message_id" if by_message else "request_id": request_id}
    ends.run(_explain(settings, asked, timeout, as_json))


async def _explain(settings: Settings, asked: Mapping[str, object], timeout_s: float, as_json: bool) -> int:
    from router.admin.service import ADMIN
    from router.cli.explained import print_explained

    async with jetstream_of(settings) as jetstream:
        heard = await ask_everyone(jetstream.connection, ADMIN + SERVICE, asked, settings, timeout_s)
    if not heard.good:
        return complain_of(heard)
    found = sorted(heard.good, key=lambda record: -record["at_ms"])
    if as_json:
        print_lines(found)
    else:
        for record in found:
            print_explained(record)
    return ends.OK if all(record["again"].get("is_same", True) for record in found) else ends.NO
