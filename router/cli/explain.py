"""`router explain`: what a code means, and what to do about it. No server is asked."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated

import typer
from msgspec import to_builtins

from router.contracts import codes
from router.contracts.codes import CODE_KINDS, Code, read_codes
from router.contracts.codes.pages import locate, read_rule
from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.output import (
    build_grid,
    build_heading,
    open_console,
    print_json_lines,
    print_table,
)


@command(skip_settings)
def explain(
    session: CommandSession,
    code: Annotated[
        str | None,
        typer.Argument(
            metavar="[CODE]",
            help="The code as it was shown. Without it all are listed, by where they occur.",
        ),
    ] = None,
) -> int:
    """Explain an error code, a decision's or a dead letter's reason, a policy's id, a verdict or an
    exit status.

    With --json one object, or without CODE one a line. Exit status: 0 it is known, 1 it is not;
    then similar names are shown.

    Example:  router explain policy_not_found    router explain POL-047-006    router explain
    """
    if code is None:
        if session.as_json:
            print_json_lines(map(_list_fields, codes.read_codes().values()))
        else:
            print_table(("met", "code", "means"), _list_rows())
        return exit_codes.OK
    entry = codes.find(code)
    if entry is None:
        return exit_codes.refuse(_describe_unknown(code, codes.find_similar(code)))
    fields = _list_fields(entry)
    session.emit_one(fields, lambda: _print_code(entry, fields))
    return exit_codes.OK


def _list_rows() -> Iterator[tuple[object, ...]]:
    """Yield a line for each place where a code occurs, kind by kind."""
    for kind in CODE_KINDS:
        for entry in read_codes().values():
            if kind in entry.kinds:
                yield kind, entry.code, entry.means


def _print_code(entry: Code, fields: Mapping[str, object]) -> None:
    out = open_console()
    out.print(entry.code, style="bold")
    out.print(entry.means)
    for title, lines in (("Usually", entry.usual), ("What to do", entry.do)):
        out.print(build_heading(title))
        out.print(build_grid(("-", line) for line in lines))
    out.print(build_heading("Where it is met"))
    out.print(build_grid((kind, CODE_KINDS[kind]) for kind in entry.kinds))
    out.print(build_heading("The rule"))
    out.print(
        build_grid(
            [("rule", fields.get("rule")), ("page", entry.page), ("file", locate(entry.page))]
        )
    )


def _list_fields(code: Code) -> dict[str, object]:
    """Return the code with the sentence of its rule; without it if the pages are not installed."""
    rule = read_rule(code.page)
    return to_builtins(code) if rule is None else {**to_builtins(code), "rule": rule}


def _describe_unknown(code: str, near: list[str]) -> str:
    similar = f"did you mean {', '.join(near)}? " if near else ""
    return f"no code is called {code!r}: {similar}`router explain` lists them all"
