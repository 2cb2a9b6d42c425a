"""The project's pages, their anchors, and what points at them.

    [text](../how-to/runbook.md#routerdown)        a link of a page: relative to the page
    docs/reference/contracts.md#replies                  a pointer of code, data or prose: from the
                                                         top of the repository
    SR-12, X5, T7, POL-047-006                 an id: an anchor of docs/reference/requirements.md or
                                               docs/explanation/crash-tests.md

An anchor is an `<a id="…">` or the slug of a heading.
"""

import os
import re
from functools import cache
from pathlib import Path

TOP = Path(__file__).parents[2]
ROOMS = ("router", "docs", "deploy", "bench", "proto", "clients", "samples", "tests")
KINDS = frozenset(
    {
        ".py",
        ".ts",
        ".mjs",
        ".toml",
        ".proto",
        ".sql",
        ".md",
        ".yaml",
        ".yml",
        ".conf",
        ".sh",
        ".json",
        ".service",
    }
)
# Generated or installed, or made of wrong pointers on purpose.
NODE = {f"clients/typescript/{name}" for name in ("node_modules", "dist", "build")}
LEFT_OUT = frozenset(
    {"router/contracts/pb", "bench/results", "deploy/grafana/dashboards", "tests/docs", *NODE}
)
# sections and pages that are not in the repository
OLD = (chr(167), "policy reference", "open points")

_FENCE = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"\]\(([^()\s]+)\)")
_ID = re.compile(r'<a (?:id|name)="([^"]+)">')
_HEADING = re.compile(r"^#{1,6} +(.+?)\s*$", re.MULTILINE)
_POINTER = re.compile(
    rf"(?<![\w./-])((?:{'|'.join(ROOMS)})/[\w./-]*\w\.md)(?:#([\w-]+(?:\.[\w-]+)*))?"
)
_NUMBERED = re.compile(
    r"\b(?:(?:SR|SD|MF|UL)-\d+|(?:POL|EVT|PORT)-047-\d{3}|(?:CMD|QRY|REQ)-05\d)\b"
)
# in docstrings alone: a variable may be called so
_SETTLED = re.compile(r"\b[XT]\d{1,2}b?\b(?=[;:,.) ])")
_DOCSTRING = re.compile(r'^ *""".*?"""', re.MULTILINE | re.DOTALL)


@cache
def read_texts() -> dict[str, str]:
    """What people read and write, by its path from the top of the repository."""
    files = [file for file in TOP.iterdir() if file.suffix in KINDS]
    for room in ROOMS:
        for directory, subdirectories, names in os.walk(TOP / room):
            here = Path(directory)
            subdirectories[:] = [
                name for name in subdirectories if relative_name(here / name) not in LEFT_OUT
            ]
            files += [here / name for name in names if os.path.splitext(name)[1] in KINDS]
    return {relative_name(file): file.read_text() for file in files}


def find_pages(directory: Path = TOP) -> list[Path]:
    """Every page in a directory and below it."""
    return sorted(
        page
        for name in read_texts()
        if name.endswith(".md") and (page := TOP / name).is_relative_to(directory)
    )


def relative_name(file: Path) -> str:
    return file.relative_to(TOP).as_posix()


@cache
def read_anchors(page: Path) -> frozenset[str]:
    """Explicit ones, and the slugs of headings."""
    text = _FENCE.sub("", page.read_text())
    return frozenset(_ID.findall(text)) | {_slug(heading) for heading in _HEADING.findall(text)}


def read_explicit_anchors(page: Path) -> list[str]:
    return _ID.findall(page.read_text())


def find_dead_links(page: Path) -> list[str]:
    """Links of a page that lead to no file, or to an anchor that its page does not have."""
    text = _CODE.sub("", _FENCE.sub("", page.read_text()))
    return [
        link
        for link in _LINK.findall(text)
        if "://" not in link and not link.startswith("mailto:") and not _leads(page, link)
    ]


def find_dead_pointers(text: str) -> list[str]:
    """Pages and anchors that a text names, and that are not there."""
    found = _POINTER.findall(text) if ".md" in text else ()
    return [
        f"{path}#{anchor}" if anchor else path
        for path, anchor in found
        if not _is_there(TOP / path, anchor)
    ]


def find_unlisted_ids(text: str) -> set[str]:
    """Ids of the specifications, of settled points and of crash tests that no list has."""
    named = {
        *_NUMBERED.findall(text),
        *(one for docstring in _DOCSTRING.findall(text) for one in _SETTLED.findall(docstring)),
    }
    listed = read_anchors(TOP / "docs" / "reference" / "requirements.md") | read_anchors(
        TOP / "docs" / "explanation" / "crash-tests.md"
    )
    return {one for one in named if one.lower() not in listed}


def find_old_pointers(text: str) -> list[str]:
    """Lines that name a section or a page that is not in the repository."""
    return [line.strip() for old in OLD if old in text for line in text.splitlines() if old in line]


def _leads(page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    target = (page.parent / path).resolve() if path else page
    return _is_there(target, anchor)


def _is_there(target: Path, anchor: str) -> bool:
    return target.exists() and (
        not anchor or (target.suffix == ".md" and anchor in read_anchors(target))
    )


def _slug(heading: str) -> str:
    """As GitHub makes it."""
    plain = re.sub(r"\[([^\]]*)\]\([^)]*\)|<[^>]*>", r"\1", heading).replace("`", "")
    return re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
