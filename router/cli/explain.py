"""`router explain`: what a code means, and what to do about it. No server is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from router.cli import ends
from router.cli.options import AsJson
from router.cli.output import console, grid, heading, print_json, print_lines, print_table

if TYPE_CHECKING:
    from router.codes import Code


def explain(
    code: Annotated[
        str | None, typer.Argument(metavar="[CODE]", help="As it was read. Without it all are listed, by where they are met.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Explain an error code, a decision's or a dead letter's reason, a policy's id, a verdict or an exit status.

    With --json one object, or without CODE one a line. Exit status: 0 it is known, 1 it is not; the nearest names are told.

    Example:  router explain policy_not_found    router explain POL-047-006    router explain
    """
    from router import codes

    if code is None:
        _list(as_json)
        return
    found = codes.find(code)
    if found is None:
        ends.complain(_unknown(code, codes.near(code)))
        raise typer.Exit(ends.NO)
    _show(found, as_json)


def _list(as_json: bool) -> None:
    from router.codes import codes

    if as_json:
        print_lines(_fields(one) for one in codes().values())
    else:
        print_table(("met", "code", "means"), _rows())


def _rows() -> Iterator[tuple[object, ...]]:
    """A line for each place where a code is met, kind by kind."""
    from router.codes import KINDS, codes

    for kind in KINDS:
        for one in codes().values():
            if kind in one.kinds:
                yield kind, one.code, one.means


def _show(found: Code, as_json: bool) -> None:
    from router.codes import KINDS
    from router.codes.pages import locate

    fields = _fields(found)
    if as_json:
        print_json(fields)
        return
    out = console()
    out.print(found.code, style="bold")
    out.print(found.means)
    for title, lines in (("Usually", found.usual), ("What to do", found.do)):
        out.print(heading(title))
        out.print(grid(("-", line) for line in lines))
    out.print(heading("Where it is met"))
    out.print(grid((kind, KINDS[kind]) for kind in found.kinds))
    out.print(heading("The rule"))
    out.print(grid([("rule", fields.get("rule")), ("page", found.page), ("file", locate(found.page))]))


def _fields(code: Code) -> dict[str, object]:
    """The code, and the sentence of its rule; that one is left out where the pages were not installed."""
    from msgspec import to_builtins

    from router.codes.pages import read_rule

    rule = read_rule(code.page)
    return to_builtins(code) if rule is None else {**to_builtins(code), "rule": rule}


def _unknown(code: str, near: list[str]) -> str:
    meant = f"did you mean {', '.join(near)}? " if near else ""
    return f"no code is called {code!r}: {meant}`router explain` lists them all"
