"""`router config`: every setting, its value, and where it came from."""

from __future__ import annotations

from router.cli import exit_codes
from router.cli.options import AsJson, ConfigFile, NatsUrl
from router.cli.output import print_lines, print_table


def config(config: ConfigFile = None, nats_url: NatsUrl = None, as_json: AsJson = False) -> None:
    """List every setting: value, source (default, file, variable, command line) and meaning. Secrets are hidden.

    Exit status: 0, or 2 when a setting is wrong: then it says which, and what is legal.

    Example:  ROUTER_DECIDE__PREFETCH=64 router config
    """
    with exit_codes.report_errors():
        from router.config import describe, load

        rows = describe(*load(config, {"nats.url": nats_url}))
    if as_json:
        print_lines(row._asdict() for row in rows)
    else:
        print_table(("setting", "value", "source", "meaning"), ((row.name, row.value, row.source, row.description) for row in rows))
