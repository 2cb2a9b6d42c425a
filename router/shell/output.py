"""What a command prints: tables for people, JSON for programs, times and foreign bytes made safe.
No text of a message can steer a terminal.

Only the functions that draw import rich, so a command without a table does not wait for it.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson

from router.contracts.codec import require_foreign_value
from router.contracts.exact_json import dump_json
from router.contracts.malformed import Malformed
from router.contracts.payload_display import indent
from router.core.masking import printable as printable  # noqa: PLC0414 - where commands look for it

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    from router.shell.view import View


MAX_WIDTH = 200  # columns, if there is no terminal
STYLES = {
    "ok": "green",
    "warn": "yellow",
    "fail": "bold red",
    "error": "bold red",
    "warning": "yellow",
}


def open_console() -> Console:
    """Open standard output for people."""
    from rich.console import Console

    return Console(
        width=None if sys.stdout.isatty() else MAX_WIDTH, highlight=False, markup=False, emoji=False
    )


def print_json(value: object) -> None:
    """Print one JSON line; indented on a terminal."""
    print(format_json(value, orjson.OPT_INDENT_2 if sys.stdout.isatty() else 0), flush=True)


def print_json_lines(values: Iterable[object]) -> None:
    """Print each value as one line of JSON: never indented, so that a program reads line by line."""
    for value in values:
        print(format_json(value), flush=True)


def print_event(event: str, **facts: object) -> None:
    """Print what a serving process tells programs: one JSON line."""
    print_json_lines([{"event": event, **facts}])


def announce_event(event: str, **facts: object) -> None:
    """Print it. A service serves on where the line cannot be written, and logs that."""
    try:
        print_event(event, **facts)
    except OSError as exc:
        # What is buffered would be tried again when the process ends, and its status would tell of
        # that.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        log_unwritten(event, exc)


def log_unwritten(what: str, exc: OSError) -> None:
    """Log that a line of a service could not be printed."""
    from router.process.observability import events, logger

    logger(__name__).warning(events.OUTPUT_NOT_WRITTEN, what=what, cause=exc.strerror)


def format_json(value: object, option: int = 0) -> str:
    """Return the value as JSON. Characters that steer a terminal become JSON escapes, so a program
    reads the same value.
    """
    option |= orjson.OPT_NON_STR_KEYS
    try:
        text = dump_json(value, option, str).decode()
    except orjson.JSONEncodeError:
        # the name of a file, or a word of the command line, that is no UTF-8
        text = dump_json(_replace_surrogates(value), option, str).decode()
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else json.dumps(c)[1:-1] for c in text)


def _replace_surrogates(value: object) -> object:
    match value:
        case str():
            return value.encode("utf-8", "replace").decode()
        case dict():
            return {
                _replace_surrogates(name): _replace_surrogates(item) for name, item in value.items()
            }
        case list() | tuple():
            return [_replace_surrogates(item) for item in value]
        case _:
            return value


def print_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    open_console().print(build_table(columns, rows))


def print_view(records: Iterable[object], view: View) -> None:
    """Print records as their view shows them in a terminal."""
    print_table(view.titles, map(view.list_cells, records))


def build_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Build a plain table; a cell that holds a verdict has its colour."""
    from rich import box
    from rich.table import Table

    made = Table(box=box.SIMPLE_HEAD, header_style="bold", pad_edge=False)
    for name in columns:
        made.add_column(name, overflow="fold")
    for row in rows:
        made.add_row(*(build_cell(value) for value in row))
    return made


def build_grid(pairs: Iterable[tuple[str, object]]) -> Table:
    """Build a table of names and values, one pair a line; a value of None is left out."""
    from rich.table import Table

    made = Table.grid(padding=(0, 2))
    made.add_column(style="dim", no_wrap=True)
    made.add_column(overflow="fold")
    for name, value in pairs:
        if value is not None:
            made.add_row(build_cell(name), build_cell(value))
    return made


def print_fields(fields: Mapping[str, object]) -> None:
    """Print the fields of one object, a line each."""
    open_console().print(build_grid((name.replace("_", " "), fields[name]) for name in fields))


def build_panel(title: str, parts: Iterable[RenderableType]) -> Panel:
    """Build a frame around the parts of one record."""
    from rich import box
    from rich.console import Group
    from rich.panel import Panel
    from rich.text import Text

    heading = Text(printable(title))
    return Panel(
        Group(*parts),
        title=heading,
        title_align="left",
        box=box.ROUNDED,
        border_style="dim",
        padding=(0, 1),
        expand=False,
    )


def build_heading(text: str) -> Text:
    """Build the heading of a part of a panel."""
    from rich.text import Text

    return Text(f"\n{text}", style="dim")


@contextmanager
def show_progress(what: str, *, is_quiet: bool = False) -> Iterator[Callable[[int, int], None]]:
    """Show a bar on standard error if that is a terminal; the caller updates it with (done, total)."""
    from rich.console import Console
    from rich.progress import Progress

    bar = Progress(
        console=Console(stderr=True), transient=True, disable=is_quiet or not sys.stderr.isatty()
    )
    with bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def build_cell(value: object) -> Text:
    from rich.text import Text

    if isinstance(value, Text):
        return value
    text = "" if value is None else printable(str(value))
    return Text(text, style=STYLES.get(text, ""))


# -- Format times for tables, and bytes from outside so that they are safe to print: JSON
# indented, text escaped, the rest as hexadecimal.


MAX_SHOWN_BYTES = 4096  # bytes; --json shows all of them
BYTES_PER_ROW = 16


def format_time(time: str) -> str:
    """Format an RFC 3339 time for a table, to the second."""
    return time[:19].replace("T", " ")


def format_bytes(data: bytes) -> str:
    """Format at most the first 4096 bytes, safe on any terminal."""
    if len(data) <= MAX_SHOWN_BYTES:
        return _format_json(data) or _format_text(data, data)
    return (
        f"{_format_text(data, data[:MAX_SHOWN_BYTES])}\n"
        f"… and {len(data) - MAX_SHOWN_BYTES} more bytes"
    )


def _format_json(data: bytes) -> str | None:
    try:
        require_foreign_value(data, MAX_SHOWN_BYTES)
    except Malformed:
        return None
    return printable(indent(data))


def _format_text(data: bytes, head: bytes) -> str:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return "\n".join(_format_hex(head))
    return printable(head.decode("utf-8", "ignore"))  # a character that was cut in two is left out


def _format_hex(data: bytes) -> Iterator[str]:
    for start in range(0, len(data), BYTES_PER_ROW):
        row = data[start : start + BYTES_PER_ROW]
        ascii_ = "".join(chr(byte) if 0x20 <= byte < 0x7F else "." for byte in row)
        yield f"{start:06x}  {row.hex(' '):<{3 * BYTES_PER_ROW - 1}}  {ascii_}"
