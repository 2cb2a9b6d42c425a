"""`make docs`: builds the site into .venv/docs/site, checks all of it, and prints figures. Exit
status 1: something is wrong.
"""

import asyncio
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.docs.blocks import DRAWN, read_blocks
from tests.docs.pages import TOP, find_dead_links, find_pages
from tests.docs.site.build import build_site, find_dead_targets, list_pages
from tests.docs.site.look import look_at_pages
from tests.docs.spelling import find_misspelt
from tests.support.browser import CHROMIUM

AXE = Path(os.environ.get("ROUTER_TEST_AXE", f"{sys.prefix}/axe/node_modules/axe-core/axe.min.js"))


def check_blocks() -> Iterator[str]:
    blocks = [block for page in find_pages() for block in read_blocks(page)]
    ours = [
        block
        for block in blocks
        if block.page.is_relative_to(TOP / "docs") or block.page.parent == TOP
    ]
    run, drawn = sum(block.is_run for block in ours), sum(block.language == DRAWN for block in ours)
    faults = [fault for block in ours if (fault := block.find_fault())]
    marked = len(ours) - run - drawn - len(faults)
    print(
        f"code blocks       {len(ours)}: {run} run by a test, {drawn} drawn, {marked} not "
        "run, with the reason"
    )
    yield from faults


def check_links(site: Path) -> Iterator[str]:
    count, dead = find_dead_targets(site)
    dead += [
        f"{page.relative_to(TOP)}: {link}"
        for page in find_pages()
        for link in find_dead_links(page)
    ]
    print(f"links             {count} of the site lead into it, {len(dead)} dead")
    yield from dead


def check_spelling() -> Iterator[str]:
    misspelt = find_misspelt(find_pages())
    print(f"spelling          {len(misspelt)} words misspelt")
    yield from misspelt


def check_looks(site: Path) -> Iterator[str]:
    axe = AXE.read_text() if AXE.is_file() else None
    if axe is None:
        print(
            f"axe-core          IT IS NOT HERE ({AXE}): no page was read by it. npm, or "
            "ROUTER_TEST_AXE, brings it"
        )
    if CHROMIUM is None:
        print(
            "phone width       THERE IS NO CHROMIUM HERE: no page was looked at (apt-get "
            "install chromium)"
        )
        return
    wide, serious = asyncio.run(look_at_pages(site, axe))
    print(f"phone width       {len(wide)} pages are wider than a phone")
    if axe is not None:
        print(f"axe-core          {len(serious)} serious findings")
    yield from (*wide, *serious)


def main() -> int:
    site = build_site(TOP / ".venv" / "docs")
    print(f"pages             {len(list_pages(site))} in {site.relative_to(TOP)}")
    faults = [*check_blocks(), *check_links(site), *check_spelling(), *check_looks(site)]
    print("\n".join(faults), file=sys.stderr)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
