"""`router usage generate`: publish a realistic load of usage events, and write its exact figures
into a file.
"""

from __future__ import annotations

from pathlib import Path
from random import SystemRandom
from typing import Annotated, BinaryIO

import orjson
import typer
from msgspec import to_builtins

from router.config import Settings
from router.core.clock import now_ms
from router.core.whole_files import replace_file
from router.delivery.wire.api import JetStream
from router.delivery.wire.topology import Topology, create
from router.lake.generate import FillResult, Load, LoadPlan, fill
from router.operate.topology.declared_topology import declare_topology
from router.shell.command_frame import CommandSession, command
from router.shell.output import build_grid, open_console, show_progress

Events = Annotated[int, typer.Option(metavar="N", help="Messages, whatever their kind.", min=1)]
Share = Annotated[float, typer.Option(metavar="SHARE", help="From 0 to 1, of all messages; exact.")]
Conflicts = Annotated[
    int, typer.Option(metavar="K", help="Messages of a known identity with other content.", min=0)
]
Tenants = Annotated[int, typer.Option(metavar="T", help="How many; a few of them use most.", min=1)]
Days = Annotated[
    float,
    typer.Option(
        metavar="DAYS", help="The events' timestamps are spread over this long, up to --until."
    ),
]
Seed = Annotated[
    int | None,
    typer.Option(
        metavar="S", help="The same seed and --until give the same bytes. Default: drawn."
    ),
]
Until = Annotated[
    int | None,
    typer.Option(
        metavar="MS", help="The last event's time, milliseconds since the epoch. Default: now."
    ),
]
TruthFile = Annotated[
    Path,
    typer.Option(metavar="FILE", help="Where the exact truth is written, as JSON.", dir_okay=False),
]


@command()
async def generate(
    session: CommandSession,
    *,
    events: Events,
    duplicates: Share = 0.02,
    late: Share = 0.01,
    malformed: Share = 0.001,
    adjustments: Share = 0.005,
    uncorrelated: Share = 0.005,
    conflicts: Conflicts = 5,
    tenants: Tenants = 20,
    days: Days = 3.0,
    seed: Seed = None,
    until: Until = None,
    truth: TruthFile = Path("usage-truth.json"),
) -> None:
    """Fill the usage stream for a trial. Never on a stream that is billed from.

    Among the messages are duplicates, conflicts, late and malformed events, adjustments, and events
    that are marked as uncorrelated.

    Exit status: 0 the stream holds all of it, 1 it does not.

    Example:  router usage generate --events 100000 --seed 7 --truth truth.json
    """
    plan = LoadPlan(
        events=events,
        duplicates=duplicates,
        late=late,
        malformed=malformed,
        adjustments=adjustments,
        uncorrelated=uncorrelated,
        conflicts=conflicts,
        tenants=tenants,
        days=days,
        until_ms=now_ms() if until is None else until,
        seed=SystemRandom().randrange(1 << 32) if seed is None else seed,
    )
    load, stream, jetstream = (
        Load(plan),
        session.settings.streams.usage.name,
        await session.open_jetstream(),
    )
    # before anything is published: without its truth a load is of no use
    with replace_file(truth) as file:
        await _make_missing(jetstream, session.settings, stream)
        with show_progress("filling", is_quiet=session.as_json) as advance:
            filled = await fill(jetstream, load, stream, advance)
        figures = {**_write_figures(load, filled, file), "truth": str(truth)}
    session.emit_one(
        figures,
        lambda: open_console().print(
            build_grid((name.replace("_", " "), figure) for name, figure in figures.items())
        ),
    )


async def _make_missing(jetstream: JetStream, settings: Settings, stream: str) -> None:
    """Create the stream as a router would: a trial may run before any router."""
    if await jetstream.stream(stream) is None:
        usage = tuple(spec for spec in declare_topology(settings).streams if spec.name == stream)
        await create(jetstream, Topology(streams=usage, consumers=()))


def _write_figures(load: Load, filled: FillResult, file: BinaryIO) -> dict[str, object]:
    """Write the figures into their file, and return those that are shown."""
    counted = load.truth.to_json()
    figures = {**to_builtins(filled), "plan": to_builtins(load.plan), **counted}
    file.write(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    counts = {
        name: value for name, value in counted.items() if name not in ("rows", "conflict_ids")
    }
    return {**to_builtins(filled), **counts, "seed": load.plan.seed}
