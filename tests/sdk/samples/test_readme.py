"""The authors' page and the front page: their extensions are run, so they stay true."""

import re
import sys
from pathlib import Path

import pytest

from router.sdk.extension import Request
from router.shell.import_target import import_extensions

ROOT = Path(__file__).parents[3]
PAGE = ROOT / "docs" / "how-to" / "write-an-extension.md"


def test_the_pages_extensions_pass_the_pages_tests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    extensions, tests = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "my_extensions.py").write_text(extensions)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    assert [one.id for one in import_extensions(str(tmp_path / "my_extensions.py"))] == [
        "normalize_text",
        "short_enough",
    ]
    found: dict[str, object] = {}
    exec(tests, found)
    ran = [test() for name, test in found.items() if name.startswith("test_") and callable(test)]
    assert len(ran) == 2


def test_the_front_pages_extension_tidies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = re.findall(
        r"```python\n(# words.py\n.*?)```",
        (ROOT / "docs" / "tutorials" / "first-steps.md").read_text(),
        re.DOTALL,
    )
    (tmp_path / "words.py").write_text(text)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    (tidy,) = import_extensions(str(tmp_path / "words.py"))
    assert tidy(Request.from_payload("  Hello WORLD ")) == ("hello world", {"words": 2})
