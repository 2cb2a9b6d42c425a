"""Builds the site with zensical, and reads what it built: pages, links, anchors."""

import os
import re
import shutil
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from tests.docs.pages import TOP
from tests.docs.site.stage import stage_pages

CONFIGURATION = TOP / "docs" / "zensical.toml"
_ISSUES = re.compile(r"(\d+) issues? found")
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


def build_site(home: Path) -> Path:
    """The directory of its HTML. What zensical complains of ends it, in zensical's own words."""
    for made in ("pages", "site"):
        shutil.rmtree(home / made, ignore_errors=True)  # a page that was moved would stay
    stage_pages(home / "pages")
    (home / "zensical.toml").write_text(CONFIGURATION.read_text())
    command = (sys.executable, "-m", "zensical", "build", "--clean")
    done = subprocess.run(command, cwd=home, capture_output=True, text=True, check=False)
    said = _COLOUR.sub("", done.stdout + done.stderr)
    if done.returncode or _ISSUES.search(said):
        sys.exit(said)
    return home / "site"


def list_pages(site: Path) -> list[Path]:
    return sorted(page for page in site.rglob("*.html") if page.name != "404.html")


def find_dead_targets(site: Path) -> tuple[int, list[str]]:
    """How many links lead into the site, and those that lead to no file or to no anchor of it."""
    links = [
        (page, link)
        for page in list_pages(site)
        for link in _read_page(page).links
        if not urlsplit(link).scheme and link
    ]
    return len(links), [
        f"{page.relative_to(site)}: {link}" for page, link in links if not _leads(site, page, link)
    ]


def _leads(site: Path, page: Path, link: str) -> bool:
    path, _, anchor = link.partition("#")
    path = unquote(path.partition("?")[0])
    target = (
        Path(
            os.path.normpath(
                site / path.lstrip("/") if path.startswith("/") else page.parent / path
            )
        )
        if path
        else page
    )
    if target.is_dir():
        target /= "index.html"
    return target.is_file() and (
        not anchor or target.suffix != ".html" or unquote(anchor) in _read_page(target).anchors
    )


class SitePage(HTMLParser):
    """What a page has: where its links lead, and the anchors that lead to it."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = {"__skip"}
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        found = dict(attributes)
        self.anchors.update(
            filter(None, (found.get("id"), found.get("name") if tag == "a" else None))
        )
        if tag in ("a", "img"):
            self.links.append(found.get("href" if tag == "a" else "src") or "")


@cache
def _read_page(page: Path) -> SitePage:
    return SitePage(page.read_text())
