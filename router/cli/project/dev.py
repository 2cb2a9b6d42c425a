"""`router dev`: a project served while it is written; what a saved file changes is shown by a
request.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from router.core.errors import Misconfigured
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.output import printable

HERE = Path()
Directory = Annotated[
    Path,
    typer.Argument(
        metavar="[DIR]", help="The project; `router init` makes one.", exists=True, file_okay=False
    ),
]
OWN_FILES = ("policies", "extensions.py", "worker.py")


@command(skip_settings, has_json=False)
async def dev(
    _session: CommandSession,
    directory: Directory = HERE,
    *,
    nats_port: Annotated[
        int, typer.Option(help="The embedded server's port; 0 = any.", min=0, max=65535)
    ] = 4222,
    http_port: Annotated[
        int, typer.Option(help="Port of /metrics, /healthz and /readyz; 0 = any.", min=0, max=65535)
    ] = 9001,
    console: Annotated[
        bool, typer.Option(help="Start the console as well, if its extra is installed.")
    ] = True,
) -> int:
    """Serve a project on an embedded NATS server until Ctrl-C: its policies, extensions.py and
    worker.py; router.toml if it has one.

    A file that is saved is in use a moment later, and the request of request.json is asked: what it
    becomes is printed. Streams are in .router/dev of the project. For one machine and one
    developer: everything is on 127.0.0.1, without login.

    Example:  router dev
    """
    from router.cli.project.dev_server import DevServer
    from router.process.embedded import server_binary
    from router.shell.signals import run_until_signal

    if not any((directory / name).exists() for name in OWN_FILES):
        raise Misconfigured(
            "DIR", f"none of {', '.join(OWN_FILES)} is there; `router init NAME` makes a project"
        )
    server_binary()  # raises what to install
    options = ["--nats-port", str(nats_port), "--http-port", str(http_port)]
    if console and _find_console():
        options.append("--console")
    return await run_until_signal(DevServer(directory, options, print_line).run())


def _find_console() -> bool:
    from router.serve.commands.serve_console import require_console

    try:
        require_console()
    except Misconfigured as exc:
        exit_codes.complain(f"without a console: {exc}")
        return False
    return True


def print_line(what: str, text: str) -> None:
    print(f"{what:<12}{printable(text)}", flush=True)
