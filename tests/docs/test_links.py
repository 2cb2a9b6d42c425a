"""Whatever the repository points at is in the repository: links of pages, pointers of code, ids of the specifications."""

import re
from collections.abc import Callable, Collection
from pathlib import Path

import pytest

from router.policy.lint import lint
from router.policy.parse import load_policy
from tests.docs import pages


@pytest.mark.parametrize("page", list(pages.pages()), ids=pages.name_of)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert pages.dead_links(page) == []


@pytest.mark.parametrize("wrong", [pages.dead_pointers, pages.unlisted_ids, pages.old_pointers], ids=lambda check: check.__name__)
def test_whatever_a_file_points_at_is_there(wrong: Callable[[str], Collection[str]]) -> None:
    found = {pages.name_of(file): told for file in pages.texts() if (told := wrong(file.read_text()))}
    assert found == {}


@pytest.mark.parametrize("page", [page for page in pages.pages() if page.parent == pages.TOP / "docs"], ids=pages.name_of)
def test_the_index_names_every_page_and_no_anchor_stands_twice(page: Path) -> None:
    index = (page.parent / "README.md").read_text()
    assert page.name == "README.md" or f"({page.name})" in index
    named = pages.explicit_anchors(page)
    assert len(named) == len(set(named))


def test_a_dead_link_a_dead_anchor_and_a_dead_pointer_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# One thing\n<a id="here"></a>\n[a](#here) [b](#one-thing) [c](#gone) [d](none.md) `[e](none.md)` [f](https://x/none.md)\n'
    )
    assert pages.dead_links(page) == ["#gone", "none.md"]
    text = "see docs/contracts.md#replies, docs/contracts.md#gone and docs/none.md."
    assert pages.dead_pointers(text) == ["docs/contracts.md#gone", "docs/none.md"]
    assert pages.old_pointers(f"as CONTRACTS {pages.OLD[0]}4 has it")
    assert pages.unlisted_ids('"""SR-36, SR-37, X28, X99, T7."""\nX77, "POL-047-008"') == {"SR-37", "X99", "POL-047-008"}


def test_the_example_of_a_policy_is_a_policy() -> None:
    (example,) = re.findall(r"```json\n(.*?)```", (pages.TOP / "docs" / "policies.md").read_text(), re.DOTALL)
    parsed = load_policy(example.encode(), "acme", "default")
    assert (parsed.warnings, lint(parsed.policy)) == ((), [])
