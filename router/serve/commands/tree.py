"""`router tree`: the supervision tree of a router with these settings."""

from __future__ import annotations

from router.config import Settings
from router.process.supervision import draw
from router.serve.fleet import Fleet
from router.serve.service import RouterService
from router.shell.command_frame import CommandSession, command
from router.shell.options import ConfigFile, NatsUrl, Processes, RenamedWorkers
from router.shell.session import load_settings_of_command


def load_router_settings(
    nats_url: NatsUrl = None, config: ConfigFile = None, processes: Processes = None
) -> Settings:
    return load_settings_of_command(config, {"nats.url": nats_url, "processes": processes}).settings


@command(load_router_settings)
def tree(session: CommandSession, _workers: RenamedWorkers = None) -> None:
    """Draw the supervision tree: names, restart rules, deadlines. No server is asked.

    With --processes 2 and more: the parent's tree, then the tree inside each process.

    Example:  router tree
    """
    drawings = _draw_trees(session.settings)
    session.emit_one(
        {name: drawing.splitlines() for name, drawing in drawings.items()},
        "\n\n".join(drawings.values()),
    )


def _draw_trees(settings: Settings) -> dict[str, str]:
    if settings.processes == 1:
        return {"tree": draw(RouterService(settings).tree())}
    parent = Fleet(lambda: settings).tree(settings)
    return {"tree": draw(parent), "process": draw(RouterService(settings, http=False).tree())}
