"""The sample policies: those that the demo and `router serve --embedded` use."""

from __future__ import annotations

from pathlib import Path


def find_policies() -> Path:
    """Return the directory of the sample policies."""
    return Path(__file__).parent
