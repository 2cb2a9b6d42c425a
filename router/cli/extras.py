"""What an extra of the package brings: a command that needs one says so before it begins."""

from __future__ import annotations

from importlib.util import find_spec

from router.errors import Misconfigured


def need(extra: str, *modules: str) -> None:
    """Looked for, not imported. Raises Misconfigured, naming the first that is missing and the extra that brings it."""
    for module in modules:
        if find_spec(module) is None:
            raise Misconfigured(module, f"is not installed: pip install 'beamline-router[{extra}]'")
