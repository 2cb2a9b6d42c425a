"""The man page router(1), made of the page of all commands: `python deploy/packaging/man_page.py | man -l -`.

Only the standard library: the build hook runs it where nothing else is installed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
COMMANDS = ROOT / "docs" / "reference" / "commands.md"
NAME = "router \\- a durable message router on NATS JetStream"
FILES = """.SH FILES
.TP
.I .router/nats
The store of the embedded server of \\fBrouter serve \\-\\-embedded\\fR, in the directory where it was started.
.SH ENVIRONMENT
.TP
.B ROUTER_CONFIG_FILE
Settings in TOML.
.TP
.B ROUTER_SECTION__NAME
One setting: \\fBROUTER_NATS__URL\\fR is \\fInats.url\\fR. \\fBrouter config show\\fR prints all of them.
"""
_HEADING = re.compile(r"(#{1,5}) (.+)")
_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")
_CODE = re.compile(r"`([^`]+)`")
_ROW = re.compile(r"(?<!\\)\|")


def build_man_page(version: str, page: str) -> str:
    """Return the page as roff. `page` is docs/reference/commands.md: its head becomes the
    description; its contents are left out.
    """
    head, _, commands = page.partition("\n## ")
    description = "\n".join(line for line in head.splitlines() if not line.startswith(("|", "# ")))
    parts = [
        f'.TH ROUTER 1 "" "router {version}" "User Commands"',
        f".SH NAME\n{NAME}",
        ".SH SYNOPSIS\n.B router\n.I COMMAND\n[\\fIOPTION\\fR]...",
        ".SH DESCRIPTION",
        *_build_lines(description.splitlines()),
        *_build_lines(f"## {commands}".splitlines()),
        FILES.rstrip(),
    ]
    return "\n".join(parts) + "\n"


def _build_lines(lines: Iterable[str]) -> Iterator[str]:
    is_code = False
    for line in lines:
        if line.startswith("```"):
            is_code = not is_code
            yield ".PP\n.RS 4\n.nf" if is_code else ".fi\n.RE\n.PP"
        elif is_code:
            yield _protect(_escape(line))
        elif heading := _HEADING.fullmatch(line):
            yield f"{'.SH' if heading[1] == '##' else '.SS'} {_escape(heading[2])}"
        elif line.startswith("|"):
            yield from _build_row([cell.strip() for cell in _ROW.split(line)[1:-1]])
        else:
            yield _protect(_format(line)) if line.strip() else ".PP"


def _build_row(cells: list[str]) -> Iterator[str]:
    """An option, what it does, and its default; the table's two first lines are no options."""
    if cells[0] in {"", "option"} or set(cells[0]) <= set("-"):
        return
    name, text, default = (*cells, "", "")[:3]
    yield f".TP\n{_protect(_format(name))}"
    yield _protect(_format(f"{text}{f' Default: {default}.' if default else ''}") or "\\&")


def _format(text: str) -> str:
    """Return one line, its code in bold and its links as their words."""
    return _CODE.sub(
        lambda found: f"\\fB{found[1]}\\fR", _escape(_LINK.sub(r"\1", text).replace("\\|", "|"))
    )


def _escape(text: str) -> str:
    return text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...")


def _protect(line: str) -> str:
    """A line that begins with a point or a quote would be a request of roff."""
    return f"\\&{line}" if line[:1] in {".", "'"} else line


if __name__ == "__main__":
    from router import __version__

    print(build_man_page(__version__, COMMANDS.read_text("utf-8")), end="")
