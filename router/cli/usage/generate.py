"""`router usage generate`: publish a realistic load of usage events, and write its exact figures into a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import orjson
import typer

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import build_grid, open_console, print_json, show_progress
from router.cli.session import load_settings, open_jetstream

if TYPE_CHECKING:
    from router.config import Settings
    from router.delivery.api import JetStream
    from router.lake.generate import FillResult, Load

Events = Annotated[int, typer.Option(metavar="N", help="Messages, whatever their kind.", min=1)]
Share = Annotated[float, typer.Option(metavar="SHARE", help="From 0 to 1, of all messages; exact.")]
Conflicts = Annotated[int, typer.Option(metavar="K", help="Messages of a known identity with other content.", min=0)]
Tenants = Annotated[int, typer.Option(metavar="T", help="How many; a few of them use most.", min=1)]
Days = Annotated[float, typer.Option(metavar="DAYS", help="The events' timestamps are spread over this long, up to --until.")]
Seed = Annotated[int | None, typer.Option(metavar="S", help="The same seed and --until give the same bytes. Default: drawn.")]
Until = Annotated[int | None, typer.Option(metavar="MS", help="The last event's time, milliseconds since the epoch. Default: now.")]
TruthFile = Annotated[Path, typer.Option(metavar="FILE", help="Where the exact truth is written, as JSON.", dir_okay=False)]


def generate(
    *,
    events: Events,
    duplicates: Share = 0.02,
    late: Share = 0.01,
    malformed: Share = 0.001,
    conflicts: Conflicts = 5,
    tenants: Tenants = 20,
    days: Days = 3.0,
    seed: Seed = None,
    until: Until = None,
    truth: TruthFile = Path("usage-truth.json"),
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    as_json: AsJson = False,
) -> None:
    """Fill the usage stream for a trial, with duplicates, late, conflicting and malformed events. Never on a stream that is billed from.

    Exit status: 0 the stream holds all of it, 1 it does not.

    Example:  router usage generate --events 100000 --seed 7 --truth truth.json
    """
    from random import SystemRandom

    from router.core.clock import now_ms
    from router.lake.generate import Load, LoadPlan

    with exit_codes.report_errors():
        settings = load_settings(nats_url, config)
        plan = LoadPlan(
            events=events,
            duplicates=duplicates,
            late=late,
            malformed=malformed,
            conflicts=conflicts,
            tenants=tenants,
            days=days,
            until_ms=now_ms() if until is None else until,
            seed=SystemRandom().randrange(1 << 32) if seed is None else seed,
        )
    exit_codes.run(_generate(settings, Load(plan), truth, as_json))


async def _generate(settings: Settings, load: Load, file: Path, as_json: bool) -> int:
    from router.lake.generate import fill

    stream = settings.streams.usage.name
    async with open_jetstream(settings) as jetstream:
        await _make_missing(jetstream, settings, stream)
        with show_progress("filling", is_quiet=as_json) as advance:
            filled = await fill(jetstream, load, stream, advance)
    _show(_write_figures(load, filled, file), as_json)
    return exit_codes.OK


async def _make_missing(jetstream: JetStream, settings: Settings, stream: str) -> None:
    """Create the stream as a router would: a trial may run before any router."""
    from router.app.declared_topology import declare_topology
    from router.delivery.topology import Topology, create

    if await jetstream.stream(stream) is None:
        usage = tuple(spec for spec in declare_topology(settings).streams if spec.name == stream)
        await create(jetstream, Topology(streams=usage, consumers=()))


def _write_figures(load: Load, filled: FillResult, file: Path) -> dict[str, object]:
    """Write the figures into their file, and return those that are shown."""
    from msgspec import to_builtins

    counted = load.truth.to_json()
    figures = {**to_builtins(filled), "plan": to_builtins(load.plan), **counted}
    file.write_bytes(orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    counts = {name: value for name, value in counted.items() if name not in ("rows", "conflict_ids")}
    return {**to_builtins(filled), **counts, "seed": load.plan.seed, "truth": str(file)}


def _show(figures: dict[str, object], as_json: bool) -> None:
    if as_json:
        print_json(figures)
    else:
        open_console().print(build_grid((name.replace("_", " "), value) for name, value in figures.items()))
