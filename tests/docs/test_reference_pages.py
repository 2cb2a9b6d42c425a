"""Pages of the reference that are made of the code are those that the code makes now."""

import runpy
from pathlib import Path

import pytest

TOP = Path(__file__).parents[2]
MADE = {"codes.md": "codes_page.py", "metrics.md": "metrics_page.py", "python.md": "api_page.py"}


@pytest.mark.parametrize(("page", "script"), MADE.items())
def test_a_page_is_fresh(page: str, script: str) -> None:
    made = runpy.run_path(str(TOP / "deploy" / script))["build_page"]()
    assert (TOP / "docs" / "reference" / page).read_text() == made, f"run `python deploy/{script} > docs/reference/{page}`"
