"""Whether what programs, operators and pages see is the same: `python -m tests.house.fingerprint`.

    (no option)            compare with the kept file, tests/house/fingerprint.txt
    --write [FILE]         write it: the kept file, after a change that is meant to be seen
    --full                 with --write FILE: also the lines of large sections, for --compare to
                           show
    --compare FILE         compare with a file that was written before
    --functions [TREE]     digests of all functions and statements of TREE/router, without names of
                           modules:
                           equal before and after files move; with --write or --compare, which of
                           them

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
        print_digests(sections)
    if options.write:
        is_full = options.full or bool(options.functions)
        options.write.write_text(format_sections(sections, is_full=is_full))
    elif options.compare or not options.functions:
        return compare(options.compare or KEPT, sections)
    return 0


def print_digests(sections: Sections) -> None:
    for name, lines in sections.items():
        print(f"{name}: {len(lines)}, {make_digest(lines)}")


def compare(file: Path, sections: Sections) -> int:
    differences = list(list_differences(read_sections(file.read_text()), sections))
    print("\n".join(differences or ["equal"]))
    return 1 if differences else 0


def read_options(arguments: Sequence[str] | None) -> argparse.Namespace:
    form = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(
        prog="python -m tests.house.fingerprint", description=__doc__, formatter_class=form
    )
    parser.add_argument("--write", type=Path, nargs="?", const=KEPT, metavar="FILE")
    parser.add_argument("--compare", type=Path, metavar="FILE")
    parser.add_argument("--functions", type=Path, nargs="?", const=REPOSITORY, metavar="TREE")
    parser.add_argument("--full", action="store_true")
    return parser.parse_args(arguments)


def format_sections(sections: Sections, *, is_full: bool = False) -> str:
    """A head for each section, then its lines; those of a large section in a full file only."""
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
            f"[{name}] differs: {before.count} lines before, {len(now)} now. The file has "
            "no lines of it: "
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
