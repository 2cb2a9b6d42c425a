"""`router docs`: the pages of this version, from the package that is installed."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.markdown import Markdown

from router.cli.docs.library import open_library
from router.cli.docs.site import build_site
from router.process.observability.http import serve_application
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.open_browser import open_browser
from router.shell.output import announce_event, open_console
from router.shell.signals import run_until_signal

HOST = "127.0.0.1"


@command(skip_settings, has_json=False)
async def docs(
    _session: CommandSession,
    page: Annotated[
        str | None,
        typer.Argument(
            metavar="[PAGE]", help="A page by its name: policies, or reference/policies.md."
        ),
    ] = None,
    http_port: Annotated[
        int, typer.Option("--http-port", help="Port of the pages; 0 = any.", min=0, max=65535)
    ] = 0,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open no browser: print the address alone.")
    ] = False,
) -> int:
    """Open the pages of this version in a browser; with PAGE print that page in the terminal.

    They are those of the installed package: no network is needed. Serves them on 127.0.0.1 until
    SIGTERM or Ctrl-C, and prints one JSON line, docs.ready, on standard output. Exit status: 0
    well, 1 there is no such page, or the pages are not installed.

    Example:  router docs    router docs first-decision
    """
    library = open_library()
    if library is None:
        return exit_codes.refuse("the pages are not installed with this package")
    if page is None:
        announce = partial(_announce, has_browser=not no_browser)
        return await run_until_signal(
            serve_application(build_site(library), HOST, http_port, announce)
        )
    file = library.find(page)
    if file is None:
        near = ", ".join(library.find_similar(page)) or "`router docs README` lists them"
        return exit_codes.refuse(f"no page is called {page!r}: {near}")
    _print_page(file)
    return exit_codes.OK


def _announce(port: int, *, has_browser: bool) -> None:
    address = f"http://{HOST}:{port}/"
    announce_event("docs.ready", http=address)
    if sys.stderr.isatty():
        print(f"  read     {address}\n", file=sys.stderr, flush=True)
    if has_browser:
        open_browser(address)


def _print_page(file: Path) -> None:
    """For people as a terminal shows Markdown, for a pipe as it is."""
    text = file.read_text("utf-8")
    if sys.stdout.isatty():
        open_console().print(Markdown(text))
    else:
        print(text, end="")
