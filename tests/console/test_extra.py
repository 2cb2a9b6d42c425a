"""Whether the console could be tested at all."""

from importlib.util import find_spec

import pytest


def test_the_extra_is_installed() -> None:
    missing = [name for name in ("jinja2", "sse_starlette") if find_spec(name) is None]
    if missing:
        pytest.skip(f"THE CONSOLE WAS NOT TESTED: {', '.join(missing)} is not installed (pip install -c constraints.txt -e '.[console]')")
