"""Which lines of the specifications are named by a test: `python -m tests.coverage_of_lines SR MF`.

A test names a line in its docstring (`SR-12`, or `SR-1 to SR-10` for all between). Prints one line
a prefix, n/n, and what is missing; the exit status is 1 unless all are there. `--list` prints the
tests of each line.
"""

import ast
import re
import sys
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path

TESTS = Path(__file__).parent
NAMED = re.compile(r"\b(SR|SD|MF|UL)-(\d+)\b(?: to \1-(\d+)\b)?")


def lines() -> dict[str, list[str]]:
    """Every line by its prefix: SR -> [SR-1 … SR-36]."""
    counts = tomllib.loads((TESTS / "lines.toml").read_text())
    return {
        prefix: [f"{prefix}-{number}" for number in range(1, count + 1)]
        for prefix, count in counts.items()
    }


def named(tests: Path = TESTS) -> dict[str, list[str]]:
    """The tests that name each line, as pytest writes them."""
    found: dict[str, list[str]] = {}
    for file in sorted(tests.rglob("test_*.py")):
        for test, docstring in _tests(file.read_text()):
            for line in _lines_in(docstring):
                found.setdefault(line, []).append(f"{file.relative_to(tests.parent)}::{test}")
    return found


def missing(prefix: str) -> list[str]:
    """The lines of a specification that no test names."""
    tests = named()
    return [line for line in lines()[prefix] if line not in tests]


def _tests(text: str) -> Iterator[tuple[str, str]]:
    if NAMED.search(text) is None:
        return  # most files name none, and parsing is what costs
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith(
            "test_"
        ):
            yield node.name, ast.get_docstring(node) or ""


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
    tests, is_whole = named(), True
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
