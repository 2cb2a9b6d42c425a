"""`router topology`: compare the declared streams and consumers with those of a server, and make
them so.

source, promote                 the streams of a second place: taken in, or made this place's own
plan, apply, mirror, export     what is declared
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer
from msgspec.structs import replace

from router.config import Settings
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import ConsumerSpec, Difference, MirrorSpec, Topology, compare
from router.delivery.wire.topology import apply as bring_about
from router.operate.audit import OperatorWrite
from router.operate.commands.dead_letters.selection import parse_instant
from router.operate.doctor import collect, describe_need, find_shortages
from router.operate.recovery import (
    add_source,
    choose_start,
    declare_mirror,
    declare_mirrors,
    promote_streams,
    start_durables,
)
from router.operate.recovery.recovery_order import (
    find_in_order,
    find_promotable,
    list_effect_streams,
)
from router.operate.topology.declared_topology import declare_topology
from router.operate.views import APPLIED, TOPOLOGY
from router.sdk.start_point import StartPoint
from router.sdk.worker import worker_durable
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command
from router.shell.options import Monitors
from router.shell.output import print_json
from router.shell.view import View, ViewColumn

# -- A second place: the streams of another account or another JetStream domain.

Domain = Annotated[
    str | None,
    typer.Option(
        "--domain",
        metavar="NAME",
        help="Every stream and bucket of a router in this JetStream domain.",
    ),
]
OtherDomain = Annotated[
    str, typer.Argument(metavar="DOMAIN", help="The JetStream domain of the other place.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help=(
            "Handle again what was stored since: 2h, 7d ago, an ISO time. Default: 10m before "
            "the newest message of the mirrors."
        ),
    ),
]
Durables = Annotated[
    list[str] | None,
    typer.Option(
        "--worker", metavar="DURABLE", help="Also a durable of workers; may be given again."
    ),
]
Force = Annotated[
    bool,
    typer.Option("--force", help="Although the mirrored place answers: its routers are stopped."),
]

RESTART = (
    "now start the NATS servers again, before the first router: only then do the streams "
    "know the ids of what they hold. "
    "Once the backlog is handled, `router topology apply` brings their duplicate windows back"
)


PROMOTED = View(
    ViewColumn("stream", of="name"),
    ViewColumn("state"),
    ViewColumn("messages"),
    ViewColumn("last", of="last_sequence"),
    ViewColumn("stored", of="last_time"),
)


async def build_mirrors(session: CommandSession, domain: str | None) -> Topology:
    """Mirrors of a domain's streams, which it is asked for; without one, of the stream of usage in
    another account.

    Raises as `JetStream.ask`: the domain gives no answer. The other account is in
    deploy/nats/accounts.conf.
    """
    settings = session.settings
    if domain is not None:
        there = JetStream((await session.open_jetstream()).connection, domain)
        return declare_mirrors(await find_in_order(there, settings), domain)
    usage = settings.streams.usage
    spec = MirrorSpec(
        name=usage.name,
        max_age=usage.max_age_ms / 1000,
        max_bytes=usage.max_bytes,
        replicas=usage.replicas,
    )
    return Topology((spec,))


@command()
async def source(session: CommandSession, domain: OtherDomain) -> None:
    """Take in the usage events of a router in another domain, such as a leaf node's, and mirror its
    dead letters.

    The usage events become messages of this place's stream, where the lake reads them; the mirror
    is called like the stream of dead letters, with _ and the domain in capitals behind it. Exit
    status: 0 done, 1 the server refused.

    Example:  router topology source leaf
    """
    settings, jetstream = session.settings, await session.open_jetstream()
    dead_letters = next(
        spec
        for spec in declare_topology(settings).streams
        if spec.name == settings.streams.dlq.name
    )
    mirror = declare_mirror(dead_letters, domain, f"{dead_letters.name}_{domain.upper()}")
    added = (
        [settings.streams.usage.name]
        if await add_source(jetstream, settings.streams.usage.name, domain)
        else []
    )
    added += [difference.name for difference in await bring_about(jetstream, Topology((mirror,)))]
    await record_topology(session, f"topology source {domain}", added)
    view = View(
        ViewColumn("stream", of=str), ViewColumn("takes_in", of=lambda _: f"domain {domain}")
    )
    session.emit(added, view, empty="nothing to do: it was taken in")


@command()
async def promote(
    session: CommandSession, since: Since = None, worker: Durables = None, force: Force = False
) -> int:
    """Make the mirrors of a lost place the streams of this one, and its durables start where their
    work may be unfinished.

    Refused while the mirrored place answers. Nothing is deleted, and the command may be given
    again: it keeps the start of the first time, or moves it to an earlier --since. Start the NATS
    servers again afterwards, and then routers and workers. Exit status: 0 done, 1 the mirrored
    place answers, nothing was mirrored here, or the server refused.

    Example:  router topology promote    router topology promote --since 2026-11-23T09:10:00Z --worker caf-worker
    """
    settings, jetstream = session.settings, await session.open_jetstream()
    wanted = await find_promotable(jetstream, settings)
    begin = await choose_start(jetstream, wanted.streams, parse_instant(since))
    promoted = await promote_streams(
        jetstream, wanted.streams, begin, list_effect_streams(settings), is_forced=force
    )
    durables = [await _declare_worker(settings, jetstream, durable) for durable in worker or ()]
    await start_durables(jetstream, (*wanted.consumers, *durables), begin)
    await record_topology(session, "topology promote", [stream.name for stream in promoted])
    session.emit(promoted, PROMOTED, empty="no stream is declared")
    exit_codes.complain(
        f"what was stored since {begin.isoformat(timespec='seconds')} is handled again; {RESTART}"
    )
    return exit_codes.OK


async def record_topology(session: CommandSession, command: str, changed: Sequence[str]) -> None:
    """Leave the audit event of what was made or changed; of nothing there is none."""
    if changed:
        await session.record(
            OperatorWrite(
                command=command,
                target=f"{len(changed)} of the topology",
                after={"changed": list(changed)},
            )
        )


async def _declare_worker(settings: Settings, jetstream: JetStream, durable: str) -> ConsumerSpec:
    """Return the durable as a worker makes it that does nothing again whose result is stored."""
    stream = settings.streams.assignments.name
    note = await StartPoint(jetstream, stream, settings.results.subject, "unanswered").note()
    return replace(
        worker_durable(stream, durable, subject=settings.assignment.subjects[0]), metadata=note
    )


# -- What is declared.

Workers = Annotated[
    list[str] | None,
    typer.Option(
        "--worker", metavar="DURABLE", help="Also a durable that workers share; may be given again."
    ),
]

Overcommit = Annotated[
    bool,
    typer.Option("--overcommit", help="Reserve more than there is room for, on your own account."),
]

AlwaysJson = Annotated[bool, typer.Option("--json", help="Changes nothing: it is JSON always.")]

LESS = (
    "Lower streams.*.max_bytes, set fewer replicas, or make room; --overcommit reserves more "
    "than there is"
)

# Fields that the `nats` tool requires in a stream's file and the server sets by itself.
_UNLIMITED = {"max_consumers": -1, "max_msgs": -1, "max_msg_size": -1}


@command()
async def plan(session: CommandSession, worker: Workers = None) -> int:
    """Show what `apply` would do. Exit status: 0 all is as declared, 1 something differs.

    Example:  router topology plan
    """
    differences = await compare(
        await session.open_jetstream(), _declare_with_workers(session.settings, worker or ())
    )
    session.emit(differences, TOPOLOGY, empty="all is as declared")
    return exit_codes.NO if differences else exit_codes.OK


@command()
async def apply(
    session: CommandSession,
    worker: Workers = None,
    monitor: Monitors = None,
    overcommit: Overcommit = False,
) -> int:
    """Create what is missing, and restore what has drifted, copies too. Nothing is ever deleted.

    The streams' max_bytes, each copy counted, must fit into the account's limit, and into the
    servers, which a cluster does not check by itself: their monitoring ports show their room
    (--monitor, or nats.monitor). Without room nothing is changed. A worker creates its durable
    itself if it may; if it may not, name the durable here. Exit status: 0 done, 1 no room, or the
    server refused, or does not answer.

    Example:  router topology apply --monitor http://n1:8222 --monitor http://n2:8222    router topology apply --worker caf-worker
    """
    wanted = _declare_with_workers(session.settings, worker or ())
    if (
        not overcommit
        and (
            shortage := await _find_shortage(
                session, wanted, monitor or session.settings.nats.monitor
            )
        )
        is not None
    ):
        return exit_codes.refuse(shortage)
    await _bring_about(session, wanted, "all was as declared", audited_as="topology apply")
    return exit_codes.OK


@command()
async def mirror(session: CommandSession, domain: Domain = None) -> None:
    """Mirror a router's streams and buckets from another JetStream domain; or usage alone, into the
    account of this key.

    With --domain it prepares a second place (docs/how-to/two-places.md). Without it the lake reads
    usage in an account of its own, away from every other stream: deploy/nats/accounts.conf imports
    what it needs. Exit status: 0 done, 1 the server refused, or does not answer.

    Example:  router topology mirror    router topology mirror --domain hub
    """
    otherwise = "the mirror was as declared" if domain is None else "every mirror was as declared"
    # no audit: where mirrors stand, nothing takes an event
    await _bring_about(session, await build_mirrors(session, domain), otherwise)


@command()
def export(
    session: CommandSession,
    directory: Annotated[
        Path | None,
        typer.Option(
            "--dir", metavar="DIR", help="Write one file for each instead.", file_okay=False
        ),
    ] = None,
    as_json: AlwaysJson = False,  # noqa: ARG001 - every client command takes it
) -> None:
    """Print the configurations as JSON, as the `nats` tool takes them. No server is asked.

    Example:  router topology export --dir ./nats    then    nats stream add --config ./nats/stream-ROUTER_DECIDE.json
    """
    wanted = declare_topology(session.settings)
    streams: list[dict[str, Any]] = [
        {**_UNLIMITED, **stream.to_json()} for stream in wanted.streams
    ]
    consumers: list[dict[str, Any]] = [
        {"stream_name": consumer.stream, "config": consumer.to_json()}
        for consumer in wanted.consumers
    ]
    if directory is None:
        print_json({"streams": streams, "consumers": consumers})
        return
    directory.mkdir(parents=True, exist_ok=True)
    for body in streams:
        _write(directory / f"stream-{body['name']}.json", body)
    for body in consumers:
        _write(
            directory / f"consumer-{body['stream_name']}-{body['config']['durable_name']}.json",
            body["config"],
        )


async def _find_shortage(
    session: CommandSession, wanted: Topology, monitors: Sequence[str]
) -> str | None:
    """Why nothing is changed. None: there is room, or what is there cannot be read, which is told."""
    settings, jetstream = session.settings, await session.open_jetstream()
    facts = await collect(
        jetstream,
        wanted,
        letters=settings.streams.dlq.name,
        max_request=settings.max_payload_bytes,
        monitors=monitors,
        asks_server=False,
    )
    if shortages := find_shortages(facts):
        return f"no room, nothing was changed: {'; '.join(shortages)}. {LESS}"
    if facts.server.is_clustered and not facts.server.storage:
        exit_codes.complain(
            f"the servers' room was not looked at: {describe_need(facts)}. --monitor URL "
            "of each server shows it"
        )
    return None


async def _bring_about(
    session: CommandSession, wanted: Topology, otherwise: str, *, audited_as: str | None = None
) -> None:
    """Apply, and print what was done, also where a later part fails: what was made stands."""
    done: list[Difference] = []
    try:
        await bring_about(await session.open_jetstream(), wanted, done.append)
    except BaseException:  # also Ctrl-C
        if done:
            await _tell(session, done, otherwise, audited_as)
        raise
    await _tell(session, done, otherwise, audited_as)


async def _tell(
    session: CommandSession, done: Sequence[Difference], otherwise: str, audited_as: str | None
) -> None:
    session.emit(done, APPLIED, empty=f"nothing to do: {otherwise}")
    if audited_as is not None:
        await record_topology(
            session, audited_as, [f"{difference.kind} {difference.name}" for difference in done]
        )


def _declare_with_workers(settings: Settings, workers: Sequence[str]) -> Topology:
    """Return the topology that the router declares, with the durables of these workers."""
    router, subject = declare_topology(settings), settings.assignment.subjects[0]
    durables = (
        worker_durable(settings.streams.assignments.name, durable, subject=subject)
        for durable in workers
    )
    return Topology(router.streams, (*router.consumers, *durables))


def _write(file: Path, body: object) -> None:
    file.write_bytes(orjson.dumps(body, option=orjson.OPT_INDENT_2) + b"\n")
    print(file)
