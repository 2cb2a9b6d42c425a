"""The rig that weighs what a server keeps in memory: its page is whole, and can be quoted from."""

import re
from pathlib import Path

import pytest

from bench.quotes import find
from tests.rigs.faults import server_memory
from tests.rigs.faults.server_memory import KEY, measure, read_heap, weigh
from tests.support.broker import Broker
from tests.support.ports import free_port


@pytest.mark.slow  # five servers
async def test_the_page_has_a_row_for_each_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server_memory, "IDLE_S", 0.0)
    (tmp_path / "memory.md").write_text(await measure(1_000, 5_000))
    for kind in ("a message", "a message with an id", "a key of a bucket"):
        assert find(f"memory.md; {kind}; of them", tmp_path) == "1000"
        assert re.fullmatch(r"-?\d+", find(f"memory.md; {kind}; heap, idle", tmp_path))
    assert find("memory.md; a key of a bucket; resident a message", tmp_path)


def test_a_server_tells_its_heap() -> None:
    """The next collection is due at twice of what is in use."""
    port = free_port()
    with Broker(f"prof_port: {port}"):
        heap = read_heap(port, "&gc=1")
    assert heap["NextGC"] / 2 / 1024 >= 1
    assert heap["HeapAlloc"] > 0


async def test_a_key_is_in_the_servers_memory() -> None:
    """Two thousand names alone are more than 36 bytes each."""
    at_once, _ = await weigh(KEY, 2_000, idle_s=0.0)
    assert at_once > 36
