"""`router tree`: the supervision tree of a router with these settings."""

from __future__ import annotations

from pathlib import Path

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl, Processes, RenamedWorkers
from router.cli.output import print_json


def tree(
    nats_url: NatsUrl = None,
    config: ConfigFile = None,
    processes: Processes = None,
    _workers: RenamedWorkers = None,
    as_json: AsJson = False,
) -> None:
    """Draw the supervision tree: names, restart rules, deadlines. No server is asked.

    With --processes 2 and more: the parent's tree, then the tree inside each process.

    Example:  router tree
    """
    with exit_codes.report_errors():
        drawings = _draw_trees(nats_url, config, processes)
    if as_json:
        print_json({name: drawing.splitlines() for name, drawing in drawings.items()})
    else:
        print("\n\n".join(drawings.values()))


def _draw_trees(nats_url: str | None, config: Path | None, processes: int | None) -> dict[str, str]:
    from router.app import RouterService
    from router.config import load
    from router.operations.supervision import draw

    settings = load(config, {"nats.url": nats_url, "processes": processes}).settings
    if settings.processes == 1:
        return {"tree": draw(RouterService(settings).tree())}
    from router.operations.fleet import Fleet

    parent = Fleet(lambda: settings).tree(settings)
    return {"tree": draw(parent), "process": draw(RouterService(settings, http=False).tree())}
