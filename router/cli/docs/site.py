"""The pages for a browser of this machine. They hold no secret and change nothing, so there is no login."""

from __future__ import annotations

from functools import lru_cache

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.routing import Route

from router.cli.docs.library import INDEX, PICTURES, PageLibrary
from router.cli.docs.markup import render_page

HEADERS = {"Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'", "X-Content-Type-Options": "nosniff"}


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
