"""The page of commands is made of their help, and the README is short because pages like it say the rest."""

import runpy
from pathlib import Path

TOP = Path(__file__).parents[2]
SHORT = 150  # lines


def test_the_page_of_commands_is_fresh() -> None:
    made = runpy.run_path(str(TOP / "deploy" / "commands_page.py"))["build_page"]()
    page = TOP / "docs" / "reference" / "commands.md"
    assert page.read_text() == made, "run `python deploy/commands_page.py > docs/reference/commands.md`"


def test_the_readme_can_be_read_in_one_sitting() -> None:
    assert len((TOP / "README.md").read_text().splitlines()) <= SHORT
