"""Agents that fail on purpose log that; the tests silence it."""

import pytest
import structlog

from router.process.observability import configure


@pytest.fixture(autouse=True)
def _quiet() -> None:
    configure("error")
    structlog.configure(cache_logger_on_first_use=False)
