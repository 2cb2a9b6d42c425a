"""A page's files and commands, as a reader who follows the page writes and types them."""

import re
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest


def files_of(page: str) -> Mapping[str, str]:
    """The Python files that a page shows, by the name in their first line."""
    return dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", page, re.DOTALL))


def importable(files: Mapping[str, str], place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Write them down where they can be imported; what a test imports of them is forgotten."""
    for name, text in files.items():
        (place / name).write_text(text)
    monkeypatch.syspath_prepend(place)
    monkeypatch.setattr(sys, "modules", {**sys.modules})


def commands_of(page: str, anchor: str) -> list[list[str]]:
    """The words of each `router …` in the blocks below an anchor, up to the next one at a line's
    beginning, in order; without `router`.
    """
    section = page.partition(f'<a id="{anchor}"></a>')[2].partition('\n<a id="')[0]
    blocks = re.findall(r"^ *```\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    lines = [line.strip() for block in blocks for line in block.splitlines()]
    return [shlex.split(line)[1:] for line in lines if line.startswith("router ")]
