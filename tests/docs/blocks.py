"""The code blocks of pages, and what their marks say: which test runs one, or why none does.

<!-- run by tests/sdk/samples/test_workers.py -->     above a block: the test that reads the page
                                                      and runs what stands there
<!-- not run: it needs Docker -->                     above a block: why no test does
<!-- all run by … -->, <!-- all not run: … -->        anywhere on a page: for every block that has
                                                      no mark of its own
```text                                               a drawing, or what a command printed: no mark
                                                      is needed
"""

import re
from dataclasses import dataclass
from pathlib import Path

from tests.docs.pages import TOP, relative_name

DRAWN = "text"
_BLOCK = re.compile(
    r"(?:^ *<!-- ((?:not )?run.*?) -->\n)?^( *)```(\S*)[^\n]*\n(.*?)^ *```",
    re.MULTILINE | re.DOTALL,
)
_ALL = re.compile(r"^<!-- all ((?:not )?run.*?) -->$", re.MULTILINE)
_RUN = re.compile(r"run by (tests/[\w/.]+\.py)")
_NOT_RUN = re.compile(r"not run: (\S.{5,})")


@dataclass(frozen=True)
class Block:
    page: Path
    line: int
    language: str
    text: str
    mark: str

    def find_fault(self) -> str | None:
        """What is wrong with its mark; None if a test runs it, if it is drawn, or if a reason says
        why it is not run.
        """
        if self.language == DRAWN or _NOT_RUN.fullmatch(self.mark):
            return None
        run = _RUN.fullmatch(self.mark)
        if run is None:
            return f"{relative_name(self.page)}:{self.line} is neither run by a test nor marked"
        return (
            None
            if self.is_read_by(TOP / run[1])
            else f"{relative_name(self.page)}:{self.line}: {run[1]} does not read this page"
        )

    @property
    def is_run(self) -> bool:
        return self.language != DRAWN and self.mark.startswith("run by")

    def is_read_by(self, test: Path) -> bool:
        """Whether a test names the page, or a module of tests/support that it imports does."""
        if not test.is_file():
            return False
        text = test.read_text()
        helpers = [
            TOP / "tests" / "support" / f"{name}.py"
            for name in re.findall(r"from tests\.support\.(\w+) import", text)
        ]
        return any(self.page.name in one.read_text() for one in (test, *helpers) if one.is_file())


def read_blocks(page: Path) -> list[Block]:
    """Every block of a page in order, with its own mark, or that of the page."""
    text = page.read_text()
    whole = _ALL.search(text)
    of_all = whole[1] if whole else ""
    return [
        Block(page, text.count("\n", 0, found.start(2)) + 1, found[3], found[4], found[1] or of_all)
        for found in _BLOCK.finditer(text)
    ]
