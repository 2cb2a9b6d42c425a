"""Whatever the repository points at is in the repository: links of pages, pointers of code, ids of
the specifications.
"""

import re
from pathlib import Path

import pytest

from router.policies.model.lint import lint
from router.policies.model.parse import load_policy
from tests.docs import pages

DOCS = pages.TOP / "docs"


@pytest.mark.parametrize("page", pages.find_pages(), ids=pages.relative_name)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    assert pages.find_dead_links(page) == []


def test_whatever_a_file_points_at_is_there() -> None:
    """One test for all files and all three rules: each file is read once."""
    checks = (pages.find_dead_pointers, pages.find_unlisted_ids, pages.find_old_pointers)
    dead = {
        name: [*found]
        for name, text in pages.read_texts().items()
        for check in checks
        if (found := check(text))
    }
    assert dead == {}


@pytest.mark.parametrize("page", pages.find_pages(DOCS), ids=pages.relative_name)
def test_the_index_names_every_page_and_no_anchor_stands_twice(page: Path) -> None:
    assert (
        page == DOCS / "README.md"
        or f"({page.relative_to(DOCS).as_posix()})" in (DOCS / "README.md").read_text()
    )
    named = pages.read_explicit_anchors(page)
    assert len(named) == len(set(named))


def test_a_dead_link_a_dead_anchor_and_a_dead_pointer_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# One thing\n<a id="here"></a>\n[a](#here) [b](#one-thing) [c](#gone) '
        "[d](none.md) `[e](none.md)` [f](https://x/none.md)\n"
    )
    assert pages.find_dead_links(page) == ["#gone", "none.md"]
    text = (
        "see docs/reference/contracts.md#replies, docs/reference/contracts.md#gone and "
        "docs/none.md."
    )
    assert pages.find_dead_pointers(text) == ["docs/reference/contracts.md#gone", "docs/none.md"]
    assert pages.find_old_pointers(f"as CONTRACTS {pages.OLD[0]}4 has it")
    assert pages.find_unlisted_ids('"""SR-36, SR-37, X28, X99, T7."""\nX77, "POL-047-008"') == {
        "SR-37",
        "X99",
        "POL-047-008",
    }


def test_the_example_of_a_policy_is_a_policy() -> None:
    (example,) = re.findall(
        r"```json\n(.*?)```", (DOCS / "reference" / "policies.md").read_text(), re.DOTALL
    )
    parsed = load_policy(example.encode(), "acme", "default")
    assert (parsed.warnings, lint(parsed.policy)) == ((), [])


def test_the_example_of_a_strategy_is_one() -> None:
    (example,) = re.findall(
        r"^Example: `(\"strategy\": .*)`\.$",
        (DOCS / "reference" / "policies.md").read_text(),
        re.MULTILINE,
    )
    providers = (
        '[{"name": "one", "weight": 1, "expected_cost": 0.01}, {"name": "two", "weight": 1, '
        '"expected_cost": 0.02}]'
    )
    parsed = load_policy(
        f'{{"version": "1.0", "providers": {providers}, {example}}}'.encode(), "acme", "default"
    )
    assert (parsed.warnings, lint(parsed.policy)) == ((), [])
