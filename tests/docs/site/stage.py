"""The pages as a site shows them: a copy in their own folders, in which a link that leads out of
the site is plain text.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from tests.docs.pages import TOP, find_pages

SHOWN = ("docs/", "bench/", "clients/", "README.md", "CHANGELOG.md", "router/ARCHITECTURE.md")
RESULTS = TOP / "bench" / "results"
FOCUS = Path(__file__).with_name("focus.js")
_LINK = re.compile(r"(?<!!)\[([^\[\]]*)\]\(([^()\s]+)\)")
_TITLE = re.compile(r"^( *```\w+) ([\w/.-]+)$", re.MULTILINE)  # ```ts examples/decide.ts


def stage_pages(into: Path) -> list[Path]:
    """The pages in the site, by their path in the repository."""
    pages = [
        page
        for page in (*find_pages(), *sorted(RESULTS.glob("*.md")))
        if _name(page).startswith(SHOWN)
    ]
    for page in pages:
        _write(into / _name(page), _read_for_site(page, set(pages)))
    for picture in _list_pictures():
        target = into / _name(picture)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(picture.read_bytes())
    _write(into / FOCUS.name, FOCUS.read_text())
    return pages


def _list_pictures() -> Iterable[Path]:
    yield from (picture for picture in (TOP / "docs" / "pictures").rglob("*") if picture.is_file())
    yield from (picture for kind in ("*.png", "*.svg") for picture in RESULTS.rglob(kind))


def _read_for_site(page: Path, pages: set[Path]) -> str:
    def keep(link: re.Match[str]) -> str:
        path = link[2].partition("#")[0]
        leads = not path or "://" in link[2] or Path(os.path.normpath(page.parent / path)) in pages
        return link[0] if leads else link[1]

    return _TITLE.sub(r'\1 title="\2"', _LINK.sub(keep, page.read_text()))


def _write(file: Path, text: str) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def _name(file: Path) -> str:
    return file.relative_to(TOP).as_posix()
