"""The project's pages, their anchors, and what points at them.

    [text](../deploy/RUNBOOK.md#routerdown)    a link of a page: relative to the page
    docs/contracts.md#replies                  a pointer of code, data or prose: from the top of the repository
    SR-12, X5, POL-047-006                     an id of a specification: an anchor of docs/requirements.md

An anchor is an `<a id="…">` or the slug of a heading.
"""

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[2]
ROOMS = ("router", "docs", "deploy", "bench", "proto", "clients", "samples", "tests")
KINDS = frozenset({".py", ".toml", ".proto", ".sql", ".md", ".yaml", ".yml", ".conf", ".sh", ".json", ".service"})
GENERATED = ("router/contracts/pb/", "bench/results/", "deploy/grafana/dashboards/")
OURSELVES = "tests/docs/"
REQUIREMENTS, CRASH_TESTS = "docs/requirements.md", "docs/crash-tests.md"

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_ID = re.compile(r'<a (?:id|name)="([^"]+)">')
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_POINTER = re.compile(rf"(?<![\w./-])((?:{'|'.join(ROOMS)})/[\w./-]*\w\.md)(?:#([\w-]+(?:\.[\w-]+)*))?")
_REQUIREMENT = re.compile(r"\b(?:(?:SR|SD|MF|UL)-\d+|(?:POL|EVT|PORT)-047-\d{3}|(?:CMD|QRY|REQ)-05\d)\b")
_SETTLED = re.compile(r"\b[XT]\d{1,2}b?\b(?=[;:,.) ])")
_DOCSTRING = re.compile(r'^ *""".*?"""', re.MULTILINE | re.DOTALL)
OLD = (chr(167), "policy reference", "open points")  # sections and pages that are not in the repository


def texts() -> Iterator[Path]:
    """Every file that a person reads and writes."""
    yield from (file for file in TOP.iterdir() if file.suffix in KINDS)
    for room in ROOMS:
        for file in (TOP / room).rglob("*"):
            if file.suffix in KINDS and not name_of(file).startswith((*GENERATED, OURSELVES)):
                yield file


def pages() -> Iterator[Path]:
    return (file for file in texts() if file.suffix == ".md")


def name_of(file: Path) -> str:
    """From the top of the repository."""
    return file.relative_to(TOP).as_posix()


@cache
def anchors(page: Path) -> frozenset[str]:
    """Explicit ones, and the slugs of headings."""
    text = _FENCE.sub("", page.read_text())
    return frozenset(_ID.findall(text)) | {_slug(heading) for heading in _HEADING.findall(text)}


def explicit_anchors(page: Path) -> list[str]:
    return _ID.findall(page.read_text())


def dead_links(page: Path) -> list[str]:
    """Links of a page that lead to no file, or to an anchor that its page does not have."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text()))
    return [link for link in _LINK.findall(text) if "://" not in link and not link.startswith("mailto:") and not _leads(page, link)]


def dead_pointers(text: str) -> list[str]:
    """Pages and anchors that a text names, and that are not there."""
    found = ((path, anchor) for path, anchor in _POINTER.findall(text))
    return [f"{path}#{anchor}" if anchor else path for path, anchor in found if not _is_there(TOP / path, anchor)]


def unlisted_ids(text: str) -> set[str]:
    """Ids of the specifications, of settled points and of crash tests that no list has."""
    named = {*_REQUIREMENT.findall(text), *(one for docstring in _DOCSTRING.findall(text) for one in _SETTLED.findall(docstring))}
    listed = anchors(TOP / REQUIREMENTS) | anchors(TOP / CRASH_TESTS)
    return {one for one in named if one.lower() not in listed}


def old_pointers(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if any(old in line for old in OLD)]


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return _is_there(target, anchor)


def _is_there(target: Path, anchor: str) -> bool:
    return target.exists() and (not anchor or (target.suffix == ".md" and anchor in anchors(target)))


def _slug(heading: str) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
