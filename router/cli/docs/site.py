"""The pages for a browser of this machine. They hold no secret and change nothing, so there is no
login.

A page of Markdown becomes HTML (`render_page`); `build_site` serves all of them, each at its path.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Container, Iterator
from functools import lru_cache
from html import escape
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from router.cli.docs.library import INDEX, PICTURES, PageLibrary

# -- The site.

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'",
    "X-Content-Type-Options": "nosniff",
}


def build_site(library: PageLibrary) -> Starlette:
    """One address a page: its path. Only the files that the library listed are read."""
    known = library.pages.keys() | library.pictures.keys()

    @lru_cache(maxsize=len(library.pages) + 1)
    def render(path: str) -> str:
        return render_page(path, library.pages[path].read_text("utf-8"), known)

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


def render_page(path: str, text: str, known: Container[str]) -> str:
    """The whole HTML of a page. `path`: its own, from the top of the pages; `known`: what a link
    may lead to.
    """
    tokens = MARKDOWN.parse(text)
    _add_anchors(tokens)
    for token in tokens:
        if token.children:
            token.children = [*_drop_links_out(token.children, posixpath.dirname(path), known)]
    title = next((one.content for one in tokens if one.type == "inline"), path)
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


def _drop_links_out(tokens: list[Token], directory: str, known: Container[str]) -> Iterator[Token]:
    dropped = False
    for token in tokens:
        if token.type == "link_open":
            dropped = not _leads(str(token.attrGet("href")), directory, known)
        if not (dropped and token.type in ("link_open", "link_close")):
            yield token


def _leads(link: str, directory: str, known: Container[str]) -> bool:
    path = link.partition("#")[0]
    return not path or ":" in path or posixpath.normpath(posixpath.join(directory, path)) in known
