"""`router topology mirror`, `source` and `promote`: streams of another account or another JetStream domain."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from router.operate.commands.dead_letters.selection import parse_instant
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.wire.api import JetStream
    from router.delivery.wire.topology import ConsumerSpec, Topology

Domain = Annotated[
    str | None, typer.Option("--domain", metavar="NAME", help="Every stream and bucket of a router in this JetStream domain.")
]
OtherDomain = Annotated[str, typer.Argument(metavar="DOMAIN", help="The JetStream domain of the other place.")]
Since = Annotated[
    str | None,
    typer.Option(
        "--since",
        help="Handle again what was stored since: 2h, 7d ago, an ISO time. Default: 10m before the newest message of the mirrors.",
    ),
]
Durables = Annotated[list[str] | None, typer.Option("--worker", metavar="DURABLE", help="Also a durable of workers; may be given again.")]
Force = Annotated[bool, typer.Option("--force", help="Although the mirrored place answers: its routers are stopped.")]

RESTART = (
    "now start the NATS servers again, before the first router: only then do the streams know the ids of what they hold. "
    "Once the backlog is handled, `router topology apply` brings their duplicate windows back"
)


async def build_mirrors(session: CommandSession, domain: str | None) -> Topology:
    """Mirrors of a domain's streams, which it is asked for; without one, of the stream of usage in another account.

    Raises as `JetStream.ask`: the domain gives no answer. The other account is in deploy/nats/accounts.conf.
    """
    from router.delivery.wire.api import JetStream
    from router.delivery.wire.topology import MirrorSpec, Topology
    from router.operate.recovery import declare_mirrors
    from router.operate.recovery.recovery_order import find_in_order

    settings = session.settings
    if domain is not None:
        there = JetStream((await session.open_jetstream()).connection, domain)
        return declare_mirrors(await find_in_order(there, settings), domain)
    usage = settings.streams.usage
    spec = MirrorSpec(name=usage.name, max_age=usage.max_age_ms / 1000, max_bytes=usage.max_bytes, replicas=usage.replicas)
    return Topology((spec,))


@command()
async def source(session: CommandSession, domain: OtherDomain) -> None:
    """Take in the usage events of a router in another domain, such as a leaf node's, and mirror its dead letters.

    The usage events become messages of this place's stream, where the lake reads them; the mirror is called like the stream of dead
    letters, with _ and the domain in capitals behind it. Exit status: 0 done, 1 the server refused.

    Example:  router topology source leaf
    """
    from router.delivery.wire.topology import Topology, apply
    from router.operate.recovery import add_source, declare_mirror

    settings, jetstream = session.settings, await session.open_jetstream()
    letters = next(spec for spec in _declare(settings).streams if spec.name == settings.streams.dlq.name)
    mirror = declare_mirror(letters, domain, f"{letters.name}_{domain.upper()}")
    added = [settings.streams.usage.name] if await add_source(jetstream, settings.streams.usage.name, domain) else []
    added += [difference.name for difference in await apply(jetstream, Topology((mirror,)))]
    await record_topology(session, f"topology source {domain}", added)
    session.emit(added, ("stream", "takes in"), lambda name: (name, f"domain {domain}"), empty="nothing to do: it was taken in")


@command()
async def promote(session: CommandSession, since: Since = None, worker: Durables = None, force: Force = False) -> int:
    """Make the mirrors of a lost place the streams of this one, and its durables start where their work may be unfinished.

    Refused while the mirrored place answers. Nothing is deleted, and the command may be given again: it keeps the start of the first
    time, or moves it to an earlier --since. Start the NATS servers again afterwards, and then routers and workers.
    Exit status: 0 done, 1 the mirrored place answers, nothing was mirrored here, or the server refused.

    Example:  router topology promote    router topology promote --since 2026-11-23T09:10:00Z --worker caf-worker
    """
    from router.operate.recovery import choose_start, promote_streams, start_durables
    from router.operate.recovery.recovery_order import find_promotable, list_effect_streams

    settings, jetstream = session.settings, await session.open_jetstream()
    wanted = await find_promotable(jetstream, settings)
    begin = await choose_start(jetstream, wanted.streams, parse_instant(since))
    promoted = await promote_streams(jetstream, wanted.streams, begin, list_effect_streams(settings), is_forced=force)
    durables = [await _declare_worker(settings, jetstream, durable) for durable in worker or ()]
    await start_durables(jetstream, (*wanted.consumers, *durables), begin)
    await record_topology(session, "topology promote", [one.name for one in promoted])
    session.emit(
        promoted,
        ("stream", "state", "messages", "last", "stored"),
        lambda one: (one.name, one.state, one.messages, one.last_sequence, one.last_time),
        empty="no stream is declared",
    )
    exit_codes.complain(f"what was stored since {begin.isoformat(timespec='seconds')} is handled again; {RESTART}")
    return exit_codes.OK


async def record_topology(session: CommandSession, command: str, changed: Sequence[str]) -> None:
    """Leave the audit event of what was made or changed; of nothing there is none."""
    from router.operate.audit import OperatorWrite

    if changed:
        await session.record(OperatorWrite(command=command, target=f"{len(changed)} of the topology", after={"changed": list(changed)}))


def _declare(settings: Settings) -> Topology:
    from router.serve.assembly import declare_topology

    return declare_topology(settings)


async def _declare_worker(settings: Settings, jetstream: JetStream, durable: str) -> ConsumerSpec:
    """Return the durable as a worker makes it that does nothing again whose result is stored."""
    from msgspec.structs import replace

    from router.sdk.start_point import StartPoint
    from router.sdk.worker import worker_durable

    stream = settings.streams.assignments.name
    note = await StartPoint(jetstream, stream, settings.results.subject, "unanswered").note()
    return replace(worker_durable(stream, durable, subject=settings.assignment.subjects[0]), metadata=note)
