"""Every code block of a page is run by a test, or marked with the reason why not."""

from pathlib import Path

import pytest

from tests.docs.blocks import read_blocks
from tests.docs.pages import TOP, find_pages, relative_name

PAGES = [TOP / "README.md", *find_pages(TOP / "docs"), TOP / "clients" / "typescript" / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=relative_name)
def test_every_block_is_run_or_marked(page: Path) -> None:
    assert [fault for block in read_blocks(page) if (fault := block.find_fault())] == []


def test_a_block_without_a_mark_is_found_and_so_is_a_mark_that_is_not_true(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tests.docs.blocks.TOP", tmp_path)
    monkeypatch.setattr("tests.docs.blocks.relative_name", lambda page: page.name)
    page = tmp_path / "page.md"
    page.write_text(
        "```sh\nls\n```\n<!-- run by tests/gone.py -->\n```sh\nls\n```\n"
        "<!-- not run: it needs Docker -->\n```sh\nls\n```\n```text\n->\n```\n"
    )
    assert [block.find_fault() for block in read_blocks(page)] == [
        "page.md:1 is neither run by a test nor marked",
        "page.md:5: tests/gone.py does not read this page",
        None,
        None,
    ]
    page.write_text("<!-- all not run: it needs Docker -->\n\n```sh\nls\n```\n")
    assert [(block.line, block.find_fault()) for block in read_blocks(page)] == [(3, None)]
