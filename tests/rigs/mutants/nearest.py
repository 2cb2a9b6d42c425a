"""The test files that may notice a fault of a module: those that import it, nearest first.

A test file imports a module directly, through a helper of tests/support, or through other modules of
Router; each import is one step. Of equally near files that of the module's own room comes first, then
that which imports less: it is more likely to be about this module.
"""

import re
from collections import deque
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import grimp

# They look at texts, start whole routers and programs, or need more than a nats-server: what decides
# is held by tests of its own.
LEFT_OUT = (
    "house", "docs", "bench", "deploy", "clients", "rigs", "lake", "mailbox", "console",
    "stories", "cli", "fleet", "testing", "agents", "faults", "neighbours", "money", "refusals", "strategies", "canaries", "fuzz",
)  # fmt: skip
NEEDS_MORE = re.compile(r"postgres|spark|chromium|browser", re.IGNORECASE)
FARTHEST = 4
# A test of another room is farther by so many steps.
STEPS_TO_ROOM = 2
IMPORT = re.compile(
    r"^ *(?:from ((?:router|tests)[\w.]*) import (\([^)]*\)|.+)|import ((?:router|tests)[\w.]+))",
    re.M,
)
NAME = re.compile(r"(?<!as )\b(?!as\b)[A-Za-z_]\w*")


def find_nearest(module: str, top: Path, count: int) -> list[str]:
    """At most `count` test files, as paths below `top`."""
    distances = measure_distances(module, top)
    imports = read_imports(top)
    room, name = module.split(".")[1], module.rpartition(".")[2]

    def rank(file: str) -> tuple[bool, int, int, str]:
        is_of_room = file.startswith(f"tests/{room}/")
        is_named = is_of_room and name in Path(file).stem
        steps = distances[file] + (0 if is_of_room else STEPS_TO_ROOM)
        return not is_named, steps, len(imports[file]), file

    ranked = sorted(distances, key=rank)
    return ranked[:count]


def measure_distances(module: str, top: Path) -> dict[str, int]:
    """How many steps each test file is away from the module."""
    users = find_users(top)
    distances = {module: 0}
    waiting = deque([module])
    while waiting:
        name = waiting.popleft()
        if distances[name] < FARTHEST:
            fresh = sorted(users.get(name, set()) - distances.keys())
            distances |= dict.fromkeys(fresh, distances[name] + 1)
            waiting += fresh
    return {name: steps for name, steps in distances.items() if name in list_tests(top)}


@cache
def list_tests(top: Path) -> frozenset[str]:
    tests = top / "tests"
    files = [
        file
        for file in tests.rglob("test_*.py")
        if not any(folder in LEFT_OUT for folder in file.relative_to(tests).parts)
    ]
    return frozenset(
        file.relative_to(top).as_posix()
        for file in files
        if not NEEDS_MORE.search(file.read_text())
    )


@cache
def find_users(top: Path) -> Mapping[str, set[str]]:
    """Who imports each module: modules by their names, test files by their paths."""
    graph = grimp.build_graph("router", cache_dir=None)
    users: dict[str, set[str]] = {
        module: graph.find_modules_that_directly_import(module) for module in graph.modules
    }
    for file, names in read_imports(top).items():
        user = file if Path(file).name.startswith("test_") else to_module(file)
        for name in names:
            users.setdefault(name, set()).add(user)
    return users


@cache
def read_imports(top: Path) -> Mapping[str, frozenset[str]]:
    """What each file of tests imports of Router and of tests."""
    return {
        file.relative_to(top).as_posix(): frozenset(find_imports(file.read_text()))
        for file in (top / "tests").rglob("*.py")
    }


def find_imports(text: str) -> Iterator[str]:
    """The modules that import statements name; read by a pattern, which is quick."""
    for module, names, plain in IMPORT.findall(text):
        if plain:
            yield plain
            continue
        yield module
        yield from (f"{module}.{name}" for name in NAME.findall(names))


def to_module(file: str) -> str:
    return file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
