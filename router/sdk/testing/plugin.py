"""The pytest plugin: `embedded_router`, and two fixtures that a conftest.py may define anew to
change what it serves.

@pytest.fixture
def router_policies():
    return Path(__file__).parent / "policies"
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from router.sdk.testing.embedded_router import EmbeddedRouter


@pytest.fixture(name="router_policies")
def find_policies() -> Path:
    """The directory of policies that `embedded_router` begins with; the package's samples, unless
    you define it.
    """
    from router.policies.followed import SAMPLE_POLICIES

    return SAMPLE_POLICIES


@pytest.fixture(name="router_settings")
def list_settings() -> Mapping[str, object]:
    """Settings of `embedded_router` by name, `{"decide.ack_wait_ms": 2000}`; none, unless you
    define it.
    """
    return {}


@pytest.fixture(name="embedded_router")
def start_router(
    tmp_path: Path, router_policies: Path, router_settings: Mapping[str, object]
) -> Iterator[EmbeddedRouter]:
    """A router on a nats-server of this test's own, on free ports of 127.0.0.1; both are gone
    afterwards.
    """
    from router.sdk.testing.embedded_router import EmbeddedRouter

    with EmbeddedRouter(tmp_path / "nats", router_policies, router_settings) as router:
        yield router
