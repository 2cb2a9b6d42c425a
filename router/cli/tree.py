"""`router tree`: the supervision tree of a router with these settings."""

from __future__ import annotations

from router.cli import ends
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_json


def tree(nats_url: NatsUrl = None, config: ConfigFile = None, as_json: AsJson = False) -> None:
    """Draw who supervises whom: names, restart rules, deadlines. No server is asked.

    Example:  router tree
    """
    with ends.errors_told():
        from router.app import RouterService
        from router.cli.session import settings_of
        from router.supervision import draw

        drawing = draw(RouterService(settings_of(nats_url, config)).tree())
    if as_json:
        print_json({"tree": drawing.splitlines()})
    else:
        print(drawing)
