"""Whether what programs, operators and pages see is still the same: `python -m tests.house.fingerprint`.

    (no option)            compare with the kept file, tests/house/fingerprint.txt
    --write [FILE]         write it: the kept file, after a change that is meant to be seen
    --full                 with --write FILE: the lines of large sections too, so that --compare shows which line differs
    --compare FILE         compare with a file that was written before
    --functions [TREE]     the digests of all functions and statements of TREE/router, without the names of modules:
                           equal before and after files move; with --write FILE or --compare FILE, which of them

Exit status: 0 equal, 1 different. `tests.house.public_face` says what the sections are.
"""

import argparse
import difflib
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.house.measure import HERE, REPOSITORY
from tests.house.moved_code import list_definitions
from tests.house.public_face import Sections, collect_sections

KEPT = HERE / "fingerprint.txt"
HEAD = "# What stays when files move. Written by `python -m tests.house.fingerprint --write`.\n"
SECTION = re.compile(r"^\[(.+)\] (\d+) lines ([0-9a-f]{16})$")


class KeptSection(NamedTuple):
    """A section of a file: of `count` lines, or of none where only the digest was written."""

    digest: str
    count: int
    lines: list[str]


def main(arguments: Sequence[str] | None = None) -> int:
    options = read_options(arguments)
    sections = list_definitions(options.functions) if options.functions else collect_sections()
    if options.functions:
        print("".join(f"{name}: {len(lines)}, {make_digest(lines)}\n" for name, lines in sections.items()), end="")
    if options.write:
        options.write.write_text(format_sections(sections, is_full=options.full or bool(options.functions)))
        return 0
    if options.functions and not options.compare:
        return 0
    differences = list(list_differences(read_sections((options.compare or KEPT).read_text()), sections))
    print("\n".join(differences or ["equal"]))
    return 1 if differences else 0


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m tests.house.fingerprint", description=__doc__, formatter_class=form)
    parser.add_argument("--write", type=Path, nargs="?", const=KEPT, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--functions", type=Path, nargs="?", const=REPOSITORY, metavar="TREE")
    parser.add_argument("--full", action="store_true")
    return parser.parse_args(arguments)


def format_sections(sections: Sections, *, is_full: bool = False) -> str:
    """The text of a file: a head for each section, then its lines, which a large section has in a full file only."""
    parts = [HEAD]
    for name, lines in sections.items():
        parts.append(f"[{name}] {len(lines)} lines {make_digest(lines)}\n")
        if is_full or "/" not in name:
            parts += (f"  {line}\n" for line in lines)
    return "".join(parts)


def read_sections(text: str) -> dict[str, KeptSection]:
    sections: dict[str, KeptSection] = {}
    lines: list[str] = []
    for line in text.splitlines()[1:]:
        if head := SECTION.match(line):
            lines = []
            sections[head[1]] = KeptSection(head[3], int(head[2]), lines)
        else:
            lines.append(line[2:])
    return sections


def list_differences(before: dict[str, KeptSection], now: Sections) -> Iterator[str]:
    """What differs, section by section: its lines where both sides have them."""
    for name in [*before, *(name for name in now if name not in before)]:
        if name not in now:
            yield f"[{name}] is gone"
        elif name not in before:
            yield f"[{name}] is new"
        elif before[name].digest != make_digest(now[name]):
            yield from _list_lines(name, before[name], now[name])


def _list_lines(name: str, before: KeptSection, now: Sequence[str]) -> Iterator[str]:
    if len(before.lines) != before.count:
        yield (
            f"[{name}] differs: {before.count} lines before, {len(now)} now. The file has no lines of it: "
            "write one with `--write FILE --full` at the commit before, then `--compare FILE`"
        )
        return
    yield f"[{name}] differs:"
    compared = difflib.unified_diff(before.lines, now, lineterm="", n=0)
    yield from (f"  {line}" for line in compared if not line.startswith(("---", "+++", "@@")))


def make_digest(lines: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
