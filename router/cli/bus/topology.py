"""`router bus topology`: compare the declared streams of the bus with those of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from msgspec import to_builtins

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_table
from router.cli.session import open_jetstream, run_client

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.topology import Difference, StreamSpec


def topology(
    apply: Annotated[bool, typer.Option("--apply", help="Create what is missing, and restore what has drifted.")] = False,
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Show the streams of the bus and how a server's streams differ. Nothing is ever deleted.

    Their names and limits come from NATS_STREAM_PREFIX, NATS_MESSAGE_TTL_SECS, NATS_MAX_MSGS_PER_SUBJECT and
    NATS_DUPLICATE_WINDOW_SECS. Exit status: 0 all is as declared, 1 something differs.

    Example:  NATS_STREAM_PREFIX=acme router bus topology --apply
    """
    run_client(nats_url, config, lambda settings: _topology(settings, apply=apply, as_json=as_json))


async def _topology(settings: Settings, *, apply: bool, as_json: bool) -> int:
    from router.app.bus import build_bus_settings
    from router.bus.topology import declare_streams
    from router.delivery import topology as delivery

    wanted = declare_streams(build_bus_settings(settings))
    async with open_jetstream(settings) as jetstream:
        found = await (delivery.apply if apply else delivery.compare)(jetstream, wanted)
    if as_json:
        print_json({"streams": [one.to_json() for one in wanted.streams], "differences": [to_builtins(one) for one in found]})
    else:
        print_table(("stream", "subjects", "kept", "window", "state"), (_row(one, found, is_mended=apply) for one in wanted.streams))
        for difference in found:
            print(("mended: " if apply else "") + str(difference))
    return exit_codes.OK if apply or not found else exit_codes.NO


def _row(stream: StreamSpec, found: list[Difference], *, is_mended: bool) -> tuple[object, ...]:
    from router.operations.doctor.finding import span

    state = next((one.state for one in found if one.name == stream.name), "ok")
    return (
        stream.name,
        ", ".join(stream.subjects),
        span(stream.max_age),
        span(stream.duplicate_window),
        "ok" if is_mended else state,
    )
