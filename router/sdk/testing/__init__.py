"""Tests of your own policies, extensions and workers: `pip install 'beamline-router[testing]'`, and
pytest has the fixture.

    def test_a_customer_is_answered(embedded_router):
        assert_decided(embedded_router.decide("hello", tenant_id="acme"), provider_id="openai")

`docs/how-to/test-your-own.md` is the manual. Everything is called from plain functions: what serves
runs in a thread of its own.

plugin            the fixtures; pytest loads it at its start, so it imports pytest alone
embedded_router   a nats-server, a router on it in a thread with its event loop, and what a test
                  does with them; a provider and an extension that answer what they are told, and
                  keep what they were asked; what must be true of an answer, in one line
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from router.sdk.testing.embedded_router import (
        EmbeddedRouter,
        FakeExtension,
        FakeProvider,
        assert_decided,
        assert_refused,
    )

__all__ = ["EmbeddedRouter", "FakeExtension", "FakeProvider", "assert_decided", "assert_refused"]

_PLACES = {
    "EmbeddedRouter": "embedded_router",
    "FakeExtension": "embedded_router",
    "FakeProvider": "embedded_router",
    "assert_decided": "embedded_router",
    "assert_refused": "embedded_router",
}


def __getattr__(name: str) -> object:
    if name in _PLACES:
        return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
