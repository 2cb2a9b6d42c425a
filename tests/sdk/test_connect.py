"""The SDK's classes connect by a URL, or by those of a cluster."""

import socket
from collections.abc import Iterator

import pytest

from router.config import load
from router.sdk.connect import build_held_connection, open_connection

NOTHING = "nats://127.0.0.1:1"


async def test_of_several_urls_the_one_that_answers_is_taken(nats_url: str) -> None:
    connection = await open_connection(f"{NOTHING},{nats_url}", "several")
    assert connection.is_connected
    await connection.close()


@pytest.fixture
def silent_url() -> Iterator[str]:
    """A host that accepts connections and never says a word, as one does that vanished behind a
    proxy.
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"nats://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("by", ["urls", "settings"])
async def test_each_of_several_urls_gets_its_time(
    nats_url: str, silent_url: str, by: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # the two that are silent are tried first
    monkeypatch.setattr("nats.aio.client.shuffle", lambda _: None)
    urls = f"{silent_url},{silent_url.replace('127.0.0.1', 'localhost')},{nats_url}"
    given = (
        urls
        if by == "urls"
        else load(None, {"nats.url": urls, "nats.connect_timeout_ms": 2_000}, {}).settings.nats
    )
    connection = await open_connection(given, "test")
    assert connection.is_connected
    await connection.close()


async def test_a_connection_is_closed_also_when_its_last_bytes_cannot_be_confirmed(
    nats_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def hang(*_: object, **__: object) -> None:
        raise TimeoutError

    async with build_held_connection(nats_url, "test").open() as connection:
        monkeypatch.setattr(connection, "flush", hang)
    assert connection.is_closed
