"""Deadlines of the shared buckets, which a busy machine would miss: a `conftest.py` that imports
the fixture gives its tests time.
"""

import pytest


@pytest.fixture(autouse=True)
def buckets_have_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listing may take long, and what changed last is written however long it takes."""
    monkeypatch.setattr("router.delivery.kv.watcher.ANSWER_S", 60.0)
    monkeypatch.setattr("router.delivery.kv.shared_bucket.LAST_WRITE_S", 60.0)
