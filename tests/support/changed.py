"""The tests that a change can break: `python -m tests.support.changed [BASE]`, for `make test
CHANGED=1`.

Prints the test files that use, by any way, a file which differs from where this branch left BASE
(main). A file uses what it imports (grimp; in folders that are no packages, the import statements),
the modules that its strings name, as programs that tests start, and the conftest.py of its folders.
What is not Python is used by the Python files of its folder, and by tests whose strings name it or
a folder above. Tests of the house look at everything and are always among them. What only the
fixtures of tests/conftest.py bring along is not followed: their own helpers are used by every test.
"""

import ast
import re
import subprocess
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import NamedTuple

import grimp

TOP = Path(__file__).parents[2]
PLACES = ("router", "tests", "bench", "deploy", "proto")
FOR_ALL = {
    *("pyproject.toml", "constraints.txt", "Makefile", "tests/conftest.py"),
    *(f"tests/support/{name}.py" for name in ("broker", "lanes", "patient_client", "waiting")),
}
HOUSE = "tests/house"
STRING = re.compile(r"""["']([\w./-]+)["':]""")


class Sources(NamedTuple):
    """Of each Python file: the files that it uses, and the strings in it that may name one."""

    uses: Mapping[str, set[str]]
    strings: Mapping[str, set[str]]


def list_changed(base: str, top: Path = TOP) -> set[str]:
    """Files that differ, and those that git does not know yet."""
    start = ask_git(top, "merge-base", base, "HEAD").strip()
    tracked = ask_git(top, "diff", "--name-only", start)
    return {
        *tracked.splitlines(),
        *ask_git(top, "ls-files", "--others", "--exclude-standard").splitlines(),
    }


def ask_git(top: Path, *words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=top, capture_output=True, text=True, check=True
    ).stdout


def read_sources(top: Path = TOP) -> Sources:
    files = [
        file.relative_to(top).as_posix() for place in PLACES for file in (top / place).rglob("*.py")
    ]
    strings = {file: set(STRING.findall((top / file).read_text())) for file in files}
    graph, resolve, uses = grimp.build_graph("router", cache_dir=None), resolver(files), {}
    for file in files:
        # Its own package's name in a file of router/ is no program that it starts.
        started = strings[file] - ({"router"} if file.startswith("router/") else set())
        if (module := to_module(file)) in graph.modules:
            names = graph.find_modules_directly_imported_by(module)
        else:
            names = set(find_imports((top / file).read_text()))
        uses[file] = {target for name in names for target in resolve(name)}
        uses[file] |= {target for name in started for target in resolve(name, is_run=True)}
        uses[file] |= {
            f"{folder}/conftest.py" for folder in PurePosixPath(file).parents[:-2]
        } & strings.keys()
    return Sources(uses, strings)


def find_imports(text: str) -> Iterator[str]:
    """The modules that import statements name, at the top of a file and within functions."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def resolver(files: Collection[str]) -> Callable[..., list[str]]:
    """From a module's name to its file. `is_run`: also to what `python -m` runs of a package."""
    known_files = frozenset(files)

    def resolve(name: str, *, is_run: bool = False) -> list[str]:
        place = name.replace(".", "/")
        paths = [
            f"{place}.py",
            f"{place}/__init__.py",
            *([f"{place}/__main__.py"] if is_run else ()),
        ]
        return [path for path in paths if path in known_files]

    return resolve


def to_module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def find_tests(changed: Collection[str], sources: Sources) -> list[str]:
    """The test files that use any of them; `tests` for all."""
    if not FOR_ALL.isdisjoint(changed):
        return ["tests"]
    reached = {file for path in changed for file in find_first(path, sources)}
    users: dict[str, set[str]] = {}
    for file, used in sources.uses.items():
        for used_file in used:
            users.setdefault(used_file, set()).add(file)
    waiting = [*reached]
    while waiting:
        fresh = users.get(waiting.pop(), set()) - reached
        reached |= fresh
        waiting += fresh
    return sorted(
        file
        for file in reached
        if PurePosixPath(file).name.startswith("test_") and file.startswith("tests/")
    )


def find_first(path: str, sources: Sources) -> set[str]:
    """What a changed file is the change of: itself; an `__init__.py`, of all below; else of who may
    read it.
    """
    folder = str(PurePosixPath(path).parent)
    if path.endswith("/__init__.py"):
        return {file for file in sources.uses if file.startswith(f"{folder}/")}
    if path.endswith(".py") and path.startswith(("router/", "tests/")):
        return {path}
    above = [str(parent) for parent in PurePosixPath(path).parents[:-1]]
    folders = {file: str(PurePosixPath(file).parent) for file in sources.uses}
    nearest = next((parent for parent in above if parent in folders.values()), None)
    names = {path, PurePosixPath(path).name, *above}
    readers = {
        file
        for file, strings in sources.strings.items()
        if file.startswith("tests/") and strings & names
    }
    return readers | {file for file, place in folders.items() if place == nearest}


def main(arguments: Sequence[str]) -> int:
    changed = list_changed(*(arguments or ["main"]))
    tests = find_tests(changed, read_sources())
    print(
        f"{len(changed)} files differ: {'all' if tests == ['tests'] else len(tests)} test files",
        file=sys.stderr,
    )
    print(
        *(
            tests
            if tests == ["tests"]
            else [HOUSE, *(test for test in tests if not test.startswith(HOUSE))]
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
