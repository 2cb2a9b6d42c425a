"""The page of messages is made of their shapes."""

import runpy
from pathlib import Path

TOP = Path(__file__).parents[2]


def test_the_page_of_messages_is_fresh() -> None:
    made = runpy.run_path(str(TOP / "deploy" / "messages_page.py"))["build_page"]()
    page = TOP / "docs" / "reference" / "messages.md"
    assert page.read_text() == made, (
        "run `python deploy/messages_page.py > docs/reference/messages.md`"
    )
