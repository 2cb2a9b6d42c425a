"""The command `router`: options in, rooms called, output and an exit status out. Nothing is decided here.

    app        every command, by name
    ends       how a command ends: exit statuses, one line instead of a traceback
    options    what several commands take
    session    settings, and a connection for as long as a command needs one
    output     tables for people, JSON for programs

A command imports the rooms it needs when it is called, so that `router --help` stays quick.
"""

from __future__ import annotations


def main() -> None:
    """The entry point. Ctrl-C ends it with 130, wherever it is."""
    import sys

    try:
        from router.cli.app import app

        app(prog_name="router")
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        from router.cli.reader import status_of

        sys.exit(status_of(ended.code))
