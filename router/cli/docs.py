"""The pages that an installed package brings: on a port of this machine (`router docs`), or in the
terminal (`router docs PAGE`).
"""

from __future__ import annotations

import difflib
import posixpath
import re
import sys
from collections.abc import Container, Iterator
from functools import lru_cache, partial
from html import escape
from itertools import pairwise
from pathlib import Path
from typing import Annotated

import typer
from markdown_it import MarkdownIt
from markdown_it.token import Token
from rich.markdown import Markdown
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from router.contracts.codes.pages import locate
from router.process.observability.http import serve_application
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.open_browser import open_browser
from router.shell.output import announce_event, open_console
from router.shell.signals import run_until_signal

# -- Where the pages are, and which there are: `router/docs` in an installed package, `docs`
# beside the package in a checkout.


INDEX = "README.md"
PICTURES = {".png": "image/png", ".svg": "image/svg+xml", ".webp": "image/webp"}


class PageLibrary:
    """The pages below one directory, by their path in it: `reference/policies.md`."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.pages = {
            file.relative_to(home).as_posix(): file for file in sorted(home.rglob("*.md"))
        }
        self.pictures = {
            file.relative_to(home).as_posix(): file
            for kind in PICTURES
            for file in sorted(home.rglob(f"*{kind}"))
        }

    def find(self, name: str) -> Path | None:
        """Return the page of a path, or of its last part without `.md`: `policies`. None if there
        is none.
        """
        return self.pages.get(name) or {file.stem: file for file in self.pages.values()}.get(name)

    def find_similar(self, name: str) -> list[str]:
        """Names of pages: those of a folder, `tutorials`, or those that are nearly called so."""
        if inside := [
            file.stem for path, file in self.pages.items() if path.startswith(f"{name.strip('/')}/")
        ]:
            return inside
        stems = [file.stem for file in self.pages.values()]
        return sorted(
            {*difflib.get_close_matches(name, stems, 3), *(stem for stem in stems if name in stem)}
        )


def open_library() -> PageLibrary | None:
    """Return the pages; None if they are not installed."""
    index = locate(f"docs/{INDEX}")
    return PageLibrary(index.parent) if index is not None else None


# -- The pages for a browser of this machine. They hold no secret and change nothing, so there is
# no login.
#
# A page of Markdown becomes HTML (`render_page`); `build_site` serves all of them, each at its
# path.


# -- The site.

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'",
    "X-Content-Type-Options": "nosniff",
}


def build_site(library: PageLibrary) -> Starlette:
    """One address a page: its path. Only the files that the library listed are read."""
    paths = library.pages.keys() | library.pictures.keys()

    @lru_cache(maxsize=len(library.pages) + 1)
    def render(path: str) -> str:
        return render_page(path, library.pages[path].read_text("utf-8"), paths)

    def answer(request: Request) -> Response:
        path = request.path_params["path"]
        if path in library.pages:
            return HTMLResponse(render(path), headers=HEADERS)
        if path in library.pictures:
            file = library.pictures[path]
            return Response(file.read_bytes(), media_type=PICTURES[file.suffix], headers=HEADERS)
        return PlainTextResponse("there is no such page\n", 404, headers=HEADERS)

    def go_to_index(_: Request) -> Response:
        return RedirectResponse(f"/{INDEX}")

    return Starlette(routes=[Route("/", go_to_index), Route("/{path:path}", answer)])


# -- A page as HTML. A heading gets the anchor that links of the pages use; a link that leads
# out of the pages is plain text.

# our own pages: anchors and comments are HTML
MARKDOWN = MarkdownIt("commonmark", {"html": True}).enable("table")

PAGE_FRAME = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><style>{style}</style></head>
<body><nav><a href="/README.md">All pages</a></nav><main>
{body}</main></body></html>
"""
PAGE_STYLE = """
:root { color-scheme: light dark; }
body { margin: 0 auto; padding: 1rem; max-width: 54rem; font: 1rem/1.55 system-ui, sans-serif; overflow-wrap: break-word; }
pre { overflow-x: auto; padding: .75rem; border: 1px solid #8886; border-radius: .3rem; }
code, pre { font: .875em/1.45 ui-monospace, Menlo, Consolas, monospace; }
table { display: block; overflow-x: auto; border-collapse: collapse; }
th, td { border: 1px solid #8886; padding: .3rem .6rem; text-align: left; vertical-align: top; }
img { max-width: 100%; }
"""


def render_page(path: str, text: str, paths: Container[str]) -> str:
    """The whole HTML of a page. `path`: its own, from the top of the pages; `paths`: what a link
    may lead to.
    """
    tokens = MARKDOWN.parse(text)
    _add_anchors(tokens)
    for token in tokens:
        if token.children:
            token.children = [*_drop_links_out(token.children, posixpath.dirname(path), paths)]
    title = next((token.content for token in tokens if token.type == "inline"), path)
    return PAGE_FRAME.format(
        title=escape(title),
        style=PAGE_STYLE,
        body=MARKDOWN.renderer.render(tokens, MARKDOWN.options, {}),
    )


def make_slug(heading: str) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")


def _add_anchors(tokens: list[Token]) -> None:
    for heading, content in pairwise(tokens):
        if heading.type == "heading_open":
            heading.attrSet("id", make_slug(content.content))


def _drop_links_out(tokens: list[Token], directory: str, paths: Container[str]) -> Iterator[Token]:
    dropped = False
    for token in tokens:
        if token.type == "link_open":
            dropped = not _leads(str(token.attrGet("href")), directory, paths)
        if not (dropped and token.type in ("link_open", "link_close")):
            yield token


def _leads(link: str, directory: str, paths: Container[str]) -> bool:
    path = link.partition("#")[0]
    return not path or ":" in path or posixpath.normpath(posixpath.join(directory, path)) in paths


# -- `router docs`: the pages of this version, from the package that is installed.


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
