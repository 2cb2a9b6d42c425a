"""A page's files, as a reader who follows the page writes them."""

import re
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
