"""Each dependency has its reason in docs/explanation/choices.md, and its exact version in
constraints.txt.
"""

import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
OURS = "beamline-router"
_NAME = re.compile(r"[A-Za-z0-9_.-]+")


def _name(requirement: str) -> str:
    found = _NAME.match(requirement)
    assert found is not None
    return found[0].lower().replace("_", "-")


def _pinned() -> Counter[str]:
    """How often each name stands in constraints.txt, an extra's own dependencies among them."""
    return Counter(
        _name(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    )


def _declared() -> set[str]:
    """Every name in pyproject.toml, whatever group it stands in."""
    project = PROJECT["project"]
    groups = [
        project["dependencies"],
        *project["optional-dependencies"].values(),
        PROJECT["build-system"]["requires"],
    ]
    return {_name(one) for group in groups for one in group} - {OURS}


def _reasons() -> dict[str, str]:
    """The names in the table of dependencies, with what stands beside each."""
    _, _, table = (
        (ROOT / "docs" / "explanation" / "choices.md")
        .read_text()
        .partition("## Dependencies, each with its reason")
    )
    rows = [
        line.strip("| ").split(" | ", 1)
        for line in table.splitlines()
        if line.startswith("| ") and " | " in line[2:]
    ]
    return {
        name: reason
        for names, reason in rows
        for name in re.sub(r"\(.*?\)", "", names).replace(" ", "").lower().split(",")
    }


@pytest.mark.parametrize("name", sorted(_declared()))
def test_a_dependency_has_its_reason(name: str) -> None:
    assert len(_reasons().get(name, "")) > 3


def test_no_reason_is_given_for_what_is_not_there() -> None:
    assert set(_reasons()) - _declared() - _pinned().keys() - {"package", "---"} == set()


@pytest.mark.parametrize("name", sorted(_declared() - {"hatchling"}))
def test_a_dependency_has_one_exact_version(name: str) -> None:
    assert _pinned()[name] == 1
