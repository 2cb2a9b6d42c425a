"""A file, a class or a function that the pages on the code name is in the repository.

| file of `delivery/` |    the names in the first column of such a table are files of router/delivery/
`decide/model/handler`             a file or a folder of router/, or of the repository
`MessageProcessor`         a class of router/, or of the allowed ones
`decide_settlement()`      a function of router/
"""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.docs.pages import TOP

ROUTER = TOP / "router"
PAGES = (
    ROUTER / "ARCHITECTURE.md",
    *(TOP / "docs" / "explanation" / name for name in ("choices.md", "threats.md")),
)
FOREIGN_CLASSES = {"BaseSettings"}  # of pydantic

_FENCE = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
_TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
_HEADING = re.compile(r"\| (?:file of `([\w/]+)/`|room) \|")
_NAME = re.compile(r"`([^`\n]+)`")
_PATH = re.compile(r"[a-z_]+(?:/\w+)+(?:\.\w+)?")
_CLASS = re.compile(r"[A-Z][a-z]+\w*[a-z]")
_FUNCTION = re.compile(r"([a-z_]+)\(\)")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_name_on_a_page_about_the_code_is_in_the_code(page: Path) -> None:
    assert find_missing_names(page.read_text()) == []


def test_a_missing_file_class_and_function_are_found() -> None:
    table = "| file of `delivery/` | what |\n|---|---|\n| `consume/settle`, `zzz` | `pull` |\n"
    rooms = "| room | what |\n|---|---|\n| `delivery`, `yyy` | |\n"
    assert find_missing_names(table) == ["delivery/zzz"]
    assert find_missing_names(rooms) == ["yyy"]
    assert find_missing_names(
        "`decide/model/handler` `decide/xxx` `tests/docs` `Settler` `Zettler` `read_ids_()`"
    ) == ["decide/xxx", "Zettler", "read_ids_()"]


def find_missing_names(page: str) -> list[str]:
    text = _FENCE.sub("", page)
    listed = dict(list_table_files(text))
    missing = [path for path in listed.values() if not is_file(path)]
    for name in _NAME.findall(text):
        if name in listed:
            continue
        if _PATH.fullmatch(name):
            is_known = is_file(name)
        elif _CLASS.fullmatch(name):
            is_known = name in list_definitions() | FOREIGN_CLASSES
        else:
            is_known = not (call := _FUNCTION.fullmatch(name)) or call[1] in list_definitions()
        missing += [] if is_known else [name]
    return missing


def list_table_files(text: str) -> Iterator[tuple[str, str]]:
    """The names in the first column of the tables of files and of rooms, each with its path in
    router/.
    """
    for table in _TABLE.findall(text):
        heading, _, *rows = table.splitlines()
        if (found := _HEADING.match(heading)) is not None:
            room = f"{found[1]}/" if found[1] else ""
            yield from (
                (name, room + name) for row in rows for name in _NAME.findall(row.split("|")[1])
            )


def is_file(name: str) -> bool:
    return any((root / name).exists() or (root / f"{name}.py").is_file() for root in (ROUTER, TOP))


@cache
def list_definitions() -> frozenset[str]:
    """Every class and function of router/."""
    nodes = (
        node for file in ROUTER.rglob("*.py") for node in ast.walk(ast.parse(file.read_text()))
    )
    return frozenset(
        node.name
        for node in nodes
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    )
