"""A store without room, and room again."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import nats.errors
from nats.aio.client import Client
from nats.js.api import StreamConfig
from nats.js.errors import APIError

BALLAST = "BALLAST"
SIZES = (1_000_000, 50_000, 2_000)  # what is laid in, until not even the smallest fits
# bytes that still fit into a stream, so that nothing is dropped while its limit is set
MARGIN = 20_000


@asynccontextmanager
async def full_store(client: Client) -> AsyncIterator[None]:
    """No stream of the server takes anything any more (`max_file_store`)."""
    js = client.jetstream()
    await client.jsm().add_stream(StreamConfig(name=BALLAST, subjects=["ballast"]))
    try:
        for size in SIZES:
            with contextlib.suppress(APIError):
                while True:
                    await js.publish("ballast", b"x" * size)
        yield
    finally:
        await _insisting(lambda: client.jsm().delete_stream(BALLAST))


@asynccontextmanager
async def full_stream(client: Client, name: str) -> AsyncIterator[None]:
    """This stream takes a little more, and then nothing; it must discard what is new."""
    info = await _api(client, f"STREAM.INFO.{name}", {})
    config, limit = info["config"], info["config"]["max_bytes"]
    try:
        await _api(
            client,
            f"STREAM.UPDATE.{name}",
            {**config, "max_bytes": info["state"]["bytes"] + MARGIN},
        )
        yield
    finally:
        await _insisting(
            lambda: _api(client, f"STREAM.UPDATE.{name}", {**config, "max_bytes": limit})
        )


async def _api(client: Client, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    """As JSON, for nats-py's own types leave out what they do not know, and an update takes that
    for a change.
    """
    answer = json.loads(
        (await client.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=5)).data
    )
    if "error" in answer:
        raise RuntimeError(f"{verb}: {answer['error']['description']}")
    document: dict[str, Any] = answer
    return document


async def _insisting(what: Any) -> None:
    """The store must have room again, whatever else is going on."""
    for _ in range(20):
        with contextlib.suppress(nats.errors.Error):
            await what()
            return
        await asyncio.sleep(0.25)
    raise RuntimeError("the store cannot be given room again")
