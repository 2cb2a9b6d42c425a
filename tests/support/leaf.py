"""Two servers of one account: a hub that stores, and a leaf node that clients connect to
(docs/how-to/deploy.md#leaf-nodes).

client ── leaf ──(leaf node connection)── hub, JetStream domain "hub"
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from tests.support.broker import Broker

HUB, LEAF = "hub", "leaf"


@contextmanager
def a_leaf(*, stores: bool) -> Iterator[tuple[Broker, Broker]]:
    """(hub, leaf); `stores`: the leaf has JetStream too, in a domain of its own."""
    with ExitStack() as stack:
        hub = stack.enter_context(
            _run_server(_store(stack, HUB), 'leafnodes { listen: "127.0.0.1:-1" }')
        )
        remote = f"nats://127.0.0.1:{_leaf_port(hub)}"
        own = [_store(stack, LEAF)] if stores else []
        yield (
            hub,
            stack.enter_context(
                _run_server(
                    *own,
                    f"leafnodes {{ reconnect: 1, remotes [ {{ url: {json.dumps(remote)} }} ] }}",
                )
            ),
        )


@contextmanager
def _run_server(*extra: str) -> Iterator[Broker]:
    with Broker(*extra, jetstream=False) as broker:
        yield broker


def _leaf_port(hub: Broker) -> int:
    """The ports file does not tell it."""
    match = re.search(r"Listening for leafnode connections on 127\.0\.0\.1:(\d+)", hub.log)
    assert match is not None, hub.log
    return int(match[1])


def _store(stack: ExitStack, domain: str) -> str:
    store = stack.enter_context(tempfile.TemporaryDirectory(prefix="router-test-"))
    return f"jetstream {{ store_dir: {json.dumps(store)}, domain: {domain} }}"
