"""The page of commands is made of their help."""

import runpy
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_page_of_commands_is_fresh() -> None:
    made = runpy.run_path(str(TOP / "deploy" / "commands_page.py"))["build_page"]()
    page = TOP / "docs" / "reference" / "commands.md"
    assert page.read_text() == made, (
        "run `python deploy/commands_page.py > docs/reference/commands.md`"
    )
