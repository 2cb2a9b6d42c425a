"""tests/support/README.md lists every helper once, by the first sentence of its file."""

import ast
import re

from tests.house.measure import REPOSITORY

SUPPORT = REPOSITORY / "tests" / "support"
LINE = re.compile(r"^\| `(\w+)` \| (.+) \|$", re.MULTILINE)


def test_the_page_of_the_helpers_lists_each_with_its_first_sentence() -> None:
    listed = LINE.findall((SUPPORT / "README.md").read_text())
    helpers = {
        file.stem: _read_first_line(file.read_text())
        for file in SUPPORT.glob("*.py")
        if file.stem != "__init__"
    }
    assert sorted(listed) == sorted(helpers.items())


def _read_first_line(source: str) -> str:
    """The first paragraph, on one line."""
    paragraph, _, _ = (ast.get_docstring(ast.parse(source)) or "").partition("\n\n")
    return " ".join(paragraph.split())
