"""`router topology`: compare the declared streams and consumers with those of a server."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import orjson
import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json, print_lines, print_table
from router.cli.session import load_settings, open_jetstream, run_client

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.topology import Difference, Topology

Workers = Annotated[
    list[str] | None, typer.Option("--worker", metavar="DURABLE", help="Also a durable that workers share; may be given again.")
]

AlwaysJson = Annotated[bool, typer.Option("--json", help="Changes nothing: it is JSON always.")]

topology = typer.Typer(no_args_is_help=True, help="Streams and consumers: compared, created, exported.", rich_markup_mode="rich")

DONE = {"missing": "made", "drifted": "brought back"}  # by the state before

# Fields that the `nats` tool requires in a stream's file and the server sets by itself.
_UNLIMITED = {"max_consumers": -1, "max_msgs": -1, "max_msg_size": -1}


@topology.command()
def plan(worker: Workers = None, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Show what `apply` would do. Exit status: 0 all is as declared, 1 something differs.

    Example:  router topology plan
    """
    run_client(nats_url, config, lambda settings: _plan(settings, worker or (), as_json))


@topology.command()
def apply(worker: Workers = None, nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Create what is missing, and restore what has drifted. Nothing is ever deleted.

    A worker creates its durable itself if it may; if it may not, name the durable here.
    Exit status: 0 done, 1 the server refused, or does not answer.

    Example:  router topology apply    router topology apply --worker caf-worker
    """
    run_client(nats_url, config, lambda settings: _apply(settings, worker or (), as_json))


@topology.command()
def mirror(nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Mirror the stream of usage into the account of this key, so that the lake reads it there.

    An account of its own keeps the lake's key away from every other stream: deploy/nats/accounts.conf imports what it needs.
    Exit status: 0 done, 1 the server refused, or does not answer.

    Example:  router topology mirror
    """
    run_client(nats_url, config, lambda settings: _mirror(settings, as_json))


@topology.command()
def export(
    directory: Annotated[
        Path | None, typer.Option("--dir", metavar="DIR", help="Write one file for each instead.", file_okay=False)
    ] = None,
    config: ConfigFile = None,
    nats_url: NatsUrl = None,  # noqa: ARG001 - every client command takes both
    as_json: AlwaysJson = False,  # noqa: ARG001 - every client command takes it
) -> None:
    """Print the configurations as JSON, as the `nats` tool takes them. No server is asked.

    Example:  router topology export --dir ./nats    then    nats stream add --config ./nats/stream-ROUTER_DECIDE.json
    """
    with exit_codes.report_errors():
        streams, consumers = _list_configurations(load_settings(None, config))
    if directory is None:
        print_json({"streams": streams, "consumers": consumers})
        return
    directory.mkdir(parents=True, exist_ok=True)
    for body in streams:
        _write(directory / f"stream-{body['name']}.json", body)
    for body in consumers:
        _write(directory / f"consumer-{body['stream_name']}-{body['config']['durable_name']}.json", body["config"])


async def _plan(settings: Settings, workers: Sequence[str], as_json: bool) -> int:
    from router.delivery.topology import compare

    async with open_jetstream(settings) as jetstream:
        differences = await compare(jetstream, _declare(settings, workers))
    _print(differences, as_json, nothing="all is as declared")
    return exit_codes.NO if differences else exit_codes.OK


async def _apply(settings: Settings, workers: Sequence[str], as_json: bool) -> int:
    from router.delivery.topology import apply as bring_about

    async with open_jetstream(settings) as jetstream:
        done = await bring_about(jetstream, _declare(settings, workers))
    _print(done, as_json, nothing="nothing to do: all was as declared", is_done=True)
    return exit_codes.OK


async def _mirror(settings: Settings, as_json: bool) -> int:
    from router.delivery.topology import MirrorSpec, Topology
    from router.delivery.topology import apply as bring_about

    usage = settings.streams.usage
    spec = MirrorSpec(name=usage.name, max_age=usage.max_age_ms / 1000, max_bytes=usage.max_bytes, replicas=usage.replicas)
    async with open_jetstream(settings) as jetstream:
        done = await bring_about(jetstream, Topology((spec,)))
    _print(done, as_json, nothing="nothing to do: the mirror was as declared", is_done=True)
    return exit_codes.OK


def _declare(settings: Settings, workers: Sequence[str]) -> Topology:
    """Return the topology that the router declares, with the durables of these workers."""
    from router.app import declare_topology
    from router.delivery.topology import Topology
    from router.sdk.worker import worker_durable

    router, subject = declare_topology(settings), settings.assignment.subjects[0]
    durables = (worker_durable(settings.streams.assignments.name, durable, subject=subject) for durable in workers)
    return Topology(router.streams, (*router.consumers, *durables))


def _print(differences: Sequence[Difference], as_json: bool, *, nothing: str, is_done: bool = False) -> None:
    """Print the differences, or, if `is_done`, what was done about them."""
    from msgspec import to_builtins

    if as_json:
        print_lines({**to_builtins(one), **({"done": DONE[one.state]} if is_done else {})} for one in differences)
    elif differences:
        state, changes = ("done", "declared / before") if is_done else ("state", "declared / on the server")
        rows = ((one.kind, one.name, DONE[one.state] if is_done else one.state, _format_changes(one)) for one in differences)
        print_table(("", "name", state, changes), rows)
    else:
        print(nothing)


def _format_changes(difference: Difference) -> str:
    return "\n".join(f"{name}: {want!r} / {has!r}" for name, (want, has) in difference.fields.items())


def _list_configurations(settings: Settings) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    from router.app import declare_topology

    wanted = declare_topology(settings)
    streams = [{**_UNLIMITED, **stream.to_json()} for stream in wanted.streams]
    return streams, [{"stream_name": consumer.stream, "config": consumer.to_json()} for consumer in wanted.consumers]


def _write(file: Path, body: object) -> None:
    file.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")
    print(file)
