"""One stream to bytes and back, by JetStream's own snapshot and restore requests (the `nats` tool
sends the same).

    STREAM.SNAPSHOT ──> chunks on our inbox ──> we answer each one, then the server sends more ──> an empty one: that was all
    STREAM.RESTORE  ──> a subject ──> each chunk is a request to it ──> an empty one: the server makes the stream

A snapshot holds the messages, the configuration, and the durables with what they have acked. It is
a tar archive, compressed with S2, which only the server reads. The server compares each message
with its checksum before it answers, and answers the end of a restore when it has made the stream:
both take as long as the stream is large (`wait_for_work`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, TypeVar

import nats.errors
import orjson
from msgspec import Struct

from router.core.errors import BrokerRefused, BrokerUnavailable
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.connection import Connection
from router.delivery.wire.frame_parser import Headers

# -- The snapshot.

CHUNK_BYTES = 128 * 1024
SILENCE_S = 30.0  # a server that sends or answers nothing for so long has given up

Chunk = tuple[str, bytes, Headers | None]  # reply, data, headers


class Snapshot(Struct, frozen=True):
    """What the server told about a stream when its snapshot began."""

    config: Json
    state: Json


async def take_snapshot(
    jetstream: JetStream, stream: str, write: Callable[[bytes], object]
) -> Snapshot:
    """Hand every chunk to `write`. Raises BrokerRefused, or BrokerUnavailable where the server
    stops in the middle.
    """
    connection, chunks = jetstream.connection, asyncio.Queue[Chunk]()
    inbox = connection.new_inbox()
    sid = await connection.subscribe_direct(
        inbox, lambda _, reply, data, headers: chunks.put_nowait((reply, data, headers))
    )
    try:
        body = {"deliver_subject": inbox, "chunk_size": CHUNK_BYTES, "jsck": True}
        request = jetstream.ask(f"STREAM.SNAPSHOT.{stream}", body, timeout_s=WORK_S)
        answer = await wait_for_work(connection, f"STREAM.SNAPSHOT.{stream}", request)
        while data := await _read_chunk(jetstream, stream, chunks):
            write(data)
    finally:
        await connection.unsubscribe(sid, at_once=True)
    return Snapshot(answer["config"], answer["state"])


async def _read_chunk(jetstream: JetStream, stream: str, chunks: asyncio.Queue[Chunk]) -> bytes:
    """The next chunk, answered; empty when all came."""
    try:
        async with asyncio.timeout(SILENCE_S):
            reply, data, headers = await chunks.get()
    except TimeoutError as exc:
        raise BrokerUnavailable(f"snapshot of {stream}: nothing came for {SILENCE_S:g} s") from exc
    if (
        not data
        and headers
        and (status := headers.get("Status", ""))
        and not status.startswith("2")
    ):
        raise BrokerUnavailable(
            (
                f"snapshot of {stream}: the server stopped: {status} "
                f"{headers.get('Description', '')}"
            ).rstrip()
        )
    if reply:
        jetstream.connection.publish_nowait(reply)
    return data


async def restore_snapshot(
    jetstream: JetStream, stream: str, snapshot: Snapshot, chunks: Iterable[bytes]
) -> Json:
    """Make the stream that the chunks hold; returns its info. Raises BrokerRefused (10130: there is
    one), or BrokerUnavailable.
    """
    body = {"config": snapshot.config, "state": snapshot.state}
    target = (await jetstream.ask(f"STREAM.RESTORE.{stream}", body))["deliver_subject"]
    for chunk in chunks:
        await _send(jetstream, stream, target, chunk, SILENCE_S)
    return await wait_for_work(
        jetstream.connection,
        f"STREAM.RESTORE.{stream}",
        _send(jetstream, stream, target, b"", WORK_S),
    )


async def _send(
    jetstream: JetStream, stream: str, target: str, chunk: bytes, timeout_s: float
) -> Json:
    try:
        reply = await jetstream.connection.request(target, chunk, timeout=timeout_s)
    except (nats.errors.Error, OSError, TimeoutError) as exc:
        raise BrokerUnavailable(f"restore of {stream}: no answer: {type(exc).__name__}") from exc
    answer: Json = orjson.loads(reply.data) if reply.data.startswith(b"{") else {}
    if error := answer.get("error"):
        raise BrokerRefused(
            error.get("err_code", 0),
            f"restore of {stream}: {error.get('description', '')}",
            error.get("code", 0),
        )
    return answer


# -- The wait for an answer that comes only when the server has done its work. A time that is
# good for other requests says nothing here. The answer is lost when the connection is, and the
# connection's own pings end it when the server is silent.

# 700 GB at 200 MB a second; what takes longer was lost: the stream's leader died, and our
# connection is to another server
WORK_S = 3600.0
LOOK_S = 1.0

Answer = TypeVar("Answer")


async def wait_for_work(
    connection: Connection, what: str, request: Coroutine[Any, Any, Answer]
) -> Answer:
    """The answer, or what the request raises. Raises BrokerUnavailable when the connection is lost.
    `what`: the request, for the error.
    """
    lives, asking = connection.reconnect_count, asyncio.create_task(request)
    try:
        while not (await asyncio.wait((asking,), timeout=LOOK_S))[0]:
            if connection.reconnect_count != lives or not connection.is_connected:
                raise BrokerUnavailable(f"{what}: the connection was lost before the answer")
        return asking.result()
    finally:
        asking.cancel()
