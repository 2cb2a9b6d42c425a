"""Which lines of the specifications are named by a test: `python -m tests.coverage_of_lines SR MF`.

A test names a line in its docstring (`SR-12`, or `SR-1 to SR-10` for all between). Prints one line
a prefix, n/n, and what is missing; the exit status is 1 unless all are there. `--list` prints the
tests of each line, `--short` counts those of `make test` alone.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from tests.support.lanes import has_short_cases, is_short

TESTS = Path(__file__).parent
NAMED = re.compile(r"\b(SR|SD|MF|UL)-(\d+)\b(?: to \1-(\d+)\b)?")


class NamedTest(NamedTuple):
    """A test as pytest writes it, what its docstring says, and its marks: `slow`, `matrix`."""

    address: str
    docstring: str
    marks: frozenset[str]

    @property
    def is_short(self) -> bool:
        """Whether `make test` runs it."""
        if "matrix" in self.marks:
            return False
        return is_short(self.address, is_marked="slow" in self.marks) or has_short_cases(
            self.address
        )


def lines() -> dict[str, list[str]]:
    """Every line by its prefix: SR -> [SR-1 … SR-36]."""
    counts = tomllib.loads((TESTS / "lines.toml").read_text())
    return {
        prefix: [f"{prefix}-{number}" for number in range(1, count + 1)]
        for prefix, count in counts.items()
    }


def named(tests: Path = TESTS, *, in_short_lane: bool = False) -> dict[str, list[str]]:
    """The tests that name each line, as pytest writes them."""
    found: dict[str, list[str]] = {}
    for test in find_tests(NAMED, tests):
        for line in _lines_in(test.docstring):
            if test.is_short or not in_short_lane:
                found.setdefault(line, []).append(test.address)
    return found


def missing(prefix: str, *, in_short_lane: bool = False) -> list[str]:
    """The lines of a specification that no test names."""
    tests = named(in_short_lane=in_short_lane)
    return [line for line in lines()[prefix] if line not in tests]


def find_tests(pattern: re.Pattern[str], tests: Path = TESTS) -> Iterator[NamedTest]:
    """The tests of the files that hold the pattern: most hold none, and parsing is what costs."""
    for file in sorted(tests.rglob("test_*.py")):
        if pattern.search(text := file.read_text()) is None:
            continue
        module = ast.parse(text)
        of_all = [
            node.value
            for node in module.body
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "pytestmark"
        ]
        for node in ast.walk(module):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
                "test_"
            ):
                marks = re.findall(
                    r"pytest\.mark\.(\w+)",
                    " ".join(ast.unparse(one) for one in (*of_all, *node.decorator_list)),
                )
                yield NamedTest(
                    f"{file.relative_to(tests.parent)}::{node.name}",
                    ast.get_docstring(node) or "",
                    frozenset(marks),
                )


def _lines_in(docstring: str) -> set[str]:
    found = set()
    for prefix, first, last in NAMED.findall(docstring):
        found |= {f"{prefix}-{number}" for number in range(int(first), int(last or first) + 1)}
    return found


def main(arguments: Sequence[str]) -> int:
    prefixes = [one for one in arguments if not one.startswith("-")] or [*lines()]
    if unknown := set(prefixes) - set(lines()):
        print(
            f"no such specification: {', '.join(sorted(unknown))}; there are {', '.join(lines())}",
            file=sys.stderr,
        )
        return 2
    tests, is_whole = named(in_short_lane="--short" in arguments), True
    for prefix in prefixes:
        wanted = lines()[prefix]
        gaps = [line for line in wanted if line not in tests]
        is_whole &= not gaps
        print(
            f"{prefix}: {len(wanted) - len(gaps)}/{len(wanted)}"
            + (f"  missing: {', '.join(gaps)}" if gaps else "")
        )
        if "--list" in arguments:
            print(
                "".join(
                    f"  {line}\n" + "".join(f"    {test}\n" for test in tests.get(line, ()))
                    for line in wanted
                ),
                end="",
            )
    return 0 if is_whole else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
