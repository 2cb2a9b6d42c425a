"""The authors' page: its code is run, so it stays true."""

import re
import sys
from pathlib import Path

import pytest

from router.cli.extension.loaded import extensions_at

PAGE = Path(__file__).parents[2] / "router" / "samples" / "extensions" / "README.md"


def test_the_pages_extensions_pass_the_pages_tests(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    extensions, tests = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (tmp_path / "my_extensions.py").write_text(extensions)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(sys, "modules", {**sys.modules})
    assert [one.id for one in extensions_at(str(tmp_path / "my_extensions.py"))] == ["normalize_text", "short_enough"]
    found: dict[str, object] = {}
    exec(tests, found)
    ran = [test() for name, test in found.items() if name.startswith("test_") and callable(test)]
    assert len(ran) == 2
