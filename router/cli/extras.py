"""The optional parts of the package: a command that needs one says so before it begins."""

from __future__ import annotations

from importlib.util import find_spec

from router.core.errors import Misconfigured


def need(extra: str, *modules: str) -> None:
    """Look for the modules without importing them. Raises Misconfigured, which names the first missing one and its extra."""
    for module in modules:
        if find_spec(module) is None:
            raise Misconfigured(module, f"is not installed: pip install 'beamline-router[{extra}]'")
