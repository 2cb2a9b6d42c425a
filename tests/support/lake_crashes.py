"""What happens at a crash point of a batch, in the process of a test."""

from collections.abc import Callable

import pytest


def die() -> None:
    raise MemoryError


def happens_at(
    monkeypatch: pytest.MonkeyPatch, point: str, happens: Callable[[], object]
) -> set[str]:
    """Once, at the next batch's crash point, and at no later one. Returns a set that is empty once
    it has happened.
    """
    due = {point}

    def crashpoint(name: str) -> None:
        if name in due:
            due.clear()
            happens()

    for module in ("ingest", "commits"):
        monkeypatch.setattr(f"router.lake.jobs.{module}.crashpoint", crashpoint)
    return due
