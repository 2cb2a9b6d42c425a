"""`router init` and `router dev`: a project is made, and served while it is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from router import __version__
from router.cli.project.dev_server import DevServer
from router.core.errors import Misconfigured
from router.process.embedded import server_binary
from router.serve.commands.companions import require_console
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.output import print_json, printable
from router.shell.signals import run_until_signal

# -- `router init`.

TEMPLATE = Path(__file__).parent / "template"
# they are no files of the package: neither its linters nor pytest take them for some
ENDING = ".in"
LEGAL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")  # what Compose takes for a project's name, too

NEXT = """
  next     cd {name}
           pip install -r requirements.txt    # a NATS server, the console, pytest
           router dev                         # serves it, and shows what a request becomes
           make test"""


@command(skip_settings)
def init(
    session: CommandSession,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the project, and of its directory.")
    ],
) -> None:
    """Make a small project: a policy, an extension, a worker, tests that pass, a Makefile and a
    compose file.

    Exit status: 0 it is made, 2 the name is not legal or the directory is there and not empty.

    Example:  router init shop
    """
    if not LEGAL_NAME.fullmatch(name):
        raise Misconfigured(
            "NAME",
            f"{name!r} should be lower-case letters, digits, - and _, a letter first, at most 63",
        )
    directory = Path(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Misconfigured(
            "NAME", f"{name} is there already, and not empty: choose another name, or empty it"
        )
    files = write_project(directory, {"name": name, "version": __version__})
    if session.as_json:
        print_json({"directory": name, "files": files})
        return
    print("\n".join(f"  {name}/{file}" for file in files))
    print(NEXT.format(name=name))


def write_project(directory: Path, words: dict[str, str]) -> list[str]:
    """Write each file of the template, `{{word}}` replaced; return their names."""
    files = []
    for source in sorted(TEMPLATE.rglob(f"*{ENDING}")):
        name = str(source.relative_to(TEMPLATE)).removesuffix(ENDING)
        text = source.read_text("utf-8")
        for word, value in words.items():
            text = text.replace(f"{{{{{word}}}}}", value)
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, "utf-8")
        files.append(name)
    return files


# -- `router dev`.

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
    try:
        require_console()
    except Misconfigured as exc:
        exit_codes.complain(f"without a console: {exc}")
        return False
    return True


def print_line(what: str, text: str) -> None:
    print(f"{what:<12}{printable(text)}", flush=True)
