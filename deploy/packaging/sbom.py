"""The bill of materials of the package and all its extras, as CycloneDX 1.6.

    python deploy/packaging/sbom.py > deploy/packaging/sbom.cdx.json

Versions are those of constraints.txt; licences and dependencies are what the installed packages say
of themselves (`.[dev]` has all of them). What only tests, lint and bench need is left out. No time
and no serial number: the same versions give the same file.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterable, Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
EXTRAS = frozenset({"", "all", "testing"})
SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"


def build_sbom() -> dict[str, Any]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needs = _find_needs(project)
    root = _describe(
        project["name"], project["version"], "application", {"expression": project["license"]}
    )
    pins = _read_pins()
    described = [
        _describe(name, pins[name], "library", _find_license(distribution(name)))
        for name in sorted(needs)
        if name != project["name"]
    ]
    references = {canonicalize_name(one["name"]): one["bom-ref"] for one in (root, *described)}
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": root},
        "components": described,
        "dependencies": [
            {"ref": references[name], "dependsOn": sorted(references[one] for one in found)}
            for name, found in sorted(needs.items())
        ],
    }


def _find_needs(project: dict[str, Any]) -> dict[str, set[str]]:
    """Return which package needs which, from the project on. The project's own requirements are
    read from the file, not as installed.
    """
    own = [Requirement(one) for one in project["dependencies"]]
    own += [
        Requirement(one)
        for extra in EXTRAS - {""}
        for one in project["optional-dependencies"].get(extra, ())
    ]
    nested = [one for one in own if canonicalize_name(one.name) == project["name"]]
    own += [
        Requirement(one)
        for whole in nested
        for extra in whole.extras
        for one in project["optional-dependencies"][extra]
    ]
    needs: dict[str, set[str]] = {}
    waiting = [(project["name"], one) for one in own if one not in nested]
    asked: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        parent, requirement = waiting.pop()
        name, extras = canonicalize_name(requirement.name), frozenset({"", *requirement.extras})
        needs.setdefault(parent, set()).add(name)
        needs.setdefault(name, set())
        if (name, extras) not in asked:
            asked.add((name, extras))
            waiting += [(name, one) for one in _list_requirements(distribution(name), extras)]
    return needs


def _list_requirements(package: Distribution, extras: Iterable[str]) -> Iterator[Requirement]:
    """What it needs on any Python that the project supports, on Linux."""
    for text in package.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker is None or any(
            marker.evaluate(
                {"extra": extra, "python_version": python, "python_full_version": f"{python}.9"}
            )
            for extra in extras
            for python in PYTHONS
        ):
            yield requirement


def _read_pins() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    return {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if "==" in line)
    }


def _describe(
    name: str, version: str, kind: str, license_: dict[str, Any] | None
) -> dict[str, Any]:
    purl = f"pkg:pypi/{canonicalize_name(name)}@{version}"
    licenses = {"licenses": [license_]} if license_ else {}
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "purl": purl,
        **licenses,
    }


def _find_license(package: Distribution) -> dict[str, Any] | None:
    """An SPDX expression where the package has one, else its own words, else its classifier's."""
    metadata = package.metadata
    if expression := metadata.get("License-Expression"):
        return {"expression": expression}
    own = (metadata.get("License") or "").strip()
    classifiers = [
        one.rpartition(" :: ")[2]
        for one in metadata.get_all("Classifier") or ()
        if one.startswith("License ::")
    ]
    words = own if own and "\n" not in own else next(iter(classifiers), None)
    return {"license": {"name": words}} if words else None


if __name__ == "__main__":
    print(json.dumps(build_sbom(), indent=1, ensure_ascii=False))
