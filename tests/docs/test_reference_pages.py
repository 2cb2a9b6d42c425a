"""Pages of the reference that are made of the code are those that the code makes now."""

import runpy
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
MADE = {
    "codes.md": "codes_page.py",
    "metrics.md": "metrics_page.py",
    "python.md": "api_page.py",
    "policies.md": "policies_page.py",
}

TO = {"policies.md": ""}  # it keeps its text, so it is written by its script


@pytest.mark.parametrize(("page", "script"), MADE.items())
def test_a_page_is_fresh(page: str, script: str) -> None:
    made = runpy.run_path(str(TOP / "deploy" / script))["build_page"]()
    assert (TOP / "docs" / "reference" / page).read_text() == made, (
        f"run `python deploy/{script}{TO.get(page, f' > docs/reference/{page}')}`"
    )


def test_a_bound_that_changes_in_the_reader_changes_in_the_page() -> None:
    build_page = runpy.run_path(str(TOP / "deploy" / "policies_page.py"))["build_page"]
    page = (TOP / "docs" / "reference" / "policies.md").read_text()
    assert build_page(page.replace("| integer, 0 … 10 | 1 |", "| integer, 0 … 11 | 2 |")) == page
    with pytest.raises(KeyError, match="retry"):
        build_page(page.replace("| `retry` |", "| `again` |"))
