"""The command `router`: it reads options, calls a room, prints the result and returns an exit
status. It decides nothing.

    app          the table of all commands: each by name, with its place
    the others   commands that belong to no feature; those of a feature stand in its folder
                 `commands`

`router.shell` is the frame of all of them. A command is loaded when it is called, so that `router
--help` stays quick.
"""

from __future__ import annotations


def main() -> None:
    """Run the command. Ctrl-C ends it with 130, wherever it is, and a full disk with a line and 74."""
    import sys

    _open_closed_streams()
    try:
        from router.cli.app import app

        app(prog_name="router")
    except KeyboardInterrupt:
        sys.exit(130)
    except SystemExit as ended:
        from router.shell.exit_codes import choose_final_status

        sys.exit(choose_final_status(ended.code))
    except OSError as exc:
        from router.shell.exit_codes import complain_of_room

        sys.exit(complain_of_room(exc))


def _open_closed_streams() -> None:
    """Put /dev/null in place of a standard stream that the caller closed (`>&-`): Python has None
    there, which nothing reads or writes.
    """
    import os
    import sys

    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - until the process ends
