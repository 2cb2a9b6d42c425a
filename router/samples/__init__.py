"""Documents to begin with: policies that the demo and `router serve --embedded` use."""

from __future__ import annotations

from pathlib import Path


def policies() -> Path:
    """A directory of policies to begin with."""
    return Path(__file__).parent / "policies"
