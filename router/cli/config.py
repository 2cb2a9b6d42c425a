"""`router config`: every setting, its value, and where it came from."""

from __future__ import annotations

from router.config import describe
from router.config.views import SETTINGS
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.options import ConfigFile, NatsUrl
from router.shell.session import load_settings_of_command


@command(skip_settings)
def config(session: CommandSession, config: ConfigFile = None, nats_url: NatsUrl = None) -> None:
    """List every setting: value, source (default, file, variable, command line) and meaning.
    Secrets are hidden.

    Exit status: 0, or 2 when a setting is wrong: then it says which, and what is legal.

    Example:  ROUTER_DECIDE__PREFETCH=64 router config
    """
    settings = describe(*load_settings_of_command(config, {"nats.url": nats_url}))
    session.emit(settings, SETTINGS, empty="")
