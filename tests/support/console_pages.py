"""An address of every page of the console, made of its own tables of addresses: what walks these
forgets none that is added.

A page with parts in braces needs an example here, of what `fill_console` stores; without one
`find_address` says which.
"""

from collections.abc import Mapping
from typing import cast
from unittest.mock import Mock

from starlette.routing import Route

from router.console.mend import list_routes
from router.contracts.assignment import assignment_id_of
from router.shell.mend.frame import MendFrame
from router.shell.pages import PAGES as SPECS

EXAMPLES = {
    "/dead-letters/{sequence}": "/dead-letters/1",
    "/contract/{sequence}": "/contract/1",
    "/contract/messages/{message}": "/contract/messages/decide",
    "/policies/{tenant}/{policy}": "/policies/acme/default?version=3&against=1",
    "/assignments/{assignment}": f"/assignments/{assignment_id_of('acme', 'request-000000')}",
}
MEND_EXAMPLES = {
    "/dead-letters/{sequence}/edit": "/dead-letters/1/edit",
    "/policies/{tenant}/{policy}/edit": "/policies/acme/default/edit",
    "/dead-letters/runs/{run}": "/dead-letters/runs/{run}",  # its name is drawn when it begins
}
IS_FEED = "/live"  # how the address of a feed of events ends, which is no page


def find_address(path: str, examples: Mapping[str, str] = EXAMPLES) -> str:
    """Raises LookupError for a page that has no example."""
    if "{" in path and path not in examples:
        raise LookupError(
            f"the console's page {path} needs an address in tests/support/console_pages.py"
        )
    return examples.get(path, path)


def list_mend_paths() -> list[str]:
    """Pages of who may write."""
    routes = [route for route in list_routes(cast(MendFrame, Mock())) if isinstance(route, Route)]
    return [
        route.path
        for route in routes
        if "GET" in (route.methods or ()) and not route.path.endswith(IS_FEED)
    ]


ADDRESSES = ("/", *(find_address(spec.path) for spec in SPECS))
MEND_ADDRESSES = ("/login", *(find_address(path, MEND_EXAMPLES) for path in list_mend_paths()))
OTHER_VIEWS = ("/dead-letters?show=each", "/nowhere")  # of the same pages, and of none


def name_picture(address: str) -> str:
    """The first part of the names of its pictures."""
    path = address.partition("?")[0].replace("{run}", "one")
    if path.startswith("/assignments/"):
        path = "/assignments/one"
    return (path.strip("/").replace("/", "-") or "now") + (
        "-each" if "show=each" in address else ""
    )
