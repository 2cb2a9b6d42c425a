"""The manual's table of settings is the settings."""

import runpy
from pathlib import Path

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_table_of_settings_is_fresh() -> None:
    made = runpy.run_path(str(DEPLOY / "settings_table.py"))["table"]()
    page = DEPLOY.parent / "docs" / "reference" / "settings.md"
    assert page.read_text() == made, (
        "run `python deploy/settings_table.py > docs/reference/settings.md`"
    )
