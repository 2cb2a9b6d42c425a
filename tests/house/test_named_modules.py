"""A module that a docstring or a comment names with its room is there: `delivery.wire.api`,
`work.model.results.ResultsHandler`.
"""

import re
from functools import cache
from pathlib import Path

from tests.house.measure import REPOSITORY

ROUTER = REPOSITORY / "router"
NAME = re.compile(r"`([a-z_]+(?:\.[A-Za-z_]+)+)`")
OF_BEFORE = {"app", "operations", "routing", "runtime", "services"}  # rooms that are gone


def test_each_module_that_the_code_names_is_there() -> None:
    rooms = {folder.name for folder in ROUTER.iterdir() if folder.is_dir()} | OF_BEFORE
    settings = set(
        re.findall(
            r"^\| `([\w.]+)`", (REPOSITORY / "docs/reference/settings.md").read_text(), re.MULTILINE
        )
    )
    missing = [
        (str(file.relative_to(REPOSITORY)), name)
        for file in sorted(ROUTER.rglob("*.py"))
        for name in NAME.findall(file.read_text())
        if name.partition(".")[0] in rooms and name not in settings and not is_there(name)
    ]
    assert missing == []


def test_a_module_and_a_name_of_one_are_found_and_what_is_gone_is_not() -> None:
    assert [
        is_there(name)
        for name in ("delivery.wire.api", "delivery.wire.api.JetStream", "config.load")
    ] == [True] * 3
    assert [
        is_there(name) for name in ("delivery.api", "services.alerts", "delivery.wire.api.Jets")
    ] == [False] * 3


def is_there(name: str) -> bool:
    path = ROUTER.joinpath(*name.split("."))
    return _is_module(path) or (
        _is_module(path.parent) and re.search(rf"\b{path.name}\b", _read(path.parent)) is not None
    )


def _is_module(path: Path) -> bool:
    return path.with_suffix(".py").is_file() or (path / "__init__.py").is_file()


@cache
def _read(path: Path) -> str:
    file = path.with_suffix(".py") if path.with_suffix(".py").is_file() else path / "__init__.py"
    return file.read_text()
