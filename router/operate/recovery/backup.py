"""Every stream into a directory, one snapshot after the other, and back onto a server that has none
of them. It holds the payloads of all tenants, so its owner alone reads it.

A durable in a snapshot has acked what it has acked by then, and what an acked message left behind
stands in a stream of its effects. So the caller lists a stream before the streams of its effects:
an effect is stored before its message is acked, hence whatever is acked in the earlier snapshot has
its effect in the later one. The other way round, a message that was acked between the two would
lose its effect.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import nats.errors
import orjson
from msgspec import Struct

from router.core.errors import BrokerRefused, BrokerUnavailable, NotFound, RouterError
from router.core.whole_files import create_private
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.connection import Connection
from router.delivery.wire.frames import Headers
from router.operate.recovery.manifest import (
    Manifest,
    SavedStream,
    read_chunks,
    verify_files,
    write_manifest,
)
from router.operate.recovery.recovery_order import widen

# -- One stream to bytes and back, by JetStream's own snapshot and restore requests (the `nats`
# tool sends the same).
#
# STREAM.SNAPSHOT ──> chunks on our inbox ──> we answer each one, then the server sends more ──> an empty one: that was all
# STREAM.RESTORE  ──> a subject ──> each chunk is a request to it ──> an empty one: the server makes the stream
#
# A snapshot holds the messages, the configuration, and the durables with what they have acked. It
# is a tar archive, compressed with S2, which only the server reads. The server compares each
# message with its checksum before it answers, and answers the end of a restore when it has made
# the stream: both take as long as the stream is large (`wait_for_work`).


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


# -- Every stream into a directory, one snapshot after the other.


OnSaved = Callable[[SavedStream], None]


class TargetInUse(RouterError):
    """A backup never overwrites: neither files nor streams."""

    code = "target_in_use"


async def save_backup(
    jetstream: JetStream, names: Sequence[str], directory: Path, on_saved: OnSaved = lambda _: None
) -> Manifest:
    """Save these streams in this order; one that does not exist is left out. Raises TargetInUse,
    NotFound where there is none of them.
    """
    _require_empty(directory)
    began_at = datetime.now(UTC)
    saved = []
    for name in dict.fromkeys(names):
        if await jetstream.stream(name) is not None:
            saved.append(await _save(jetstream, name, directory))
            on_saved(saved[-1])
    if not saved:
        raise NotFound(f"none of these streams exists: {', '.join(names)}")
    manifest = Manifest(began_at=began_at, server=_server_version(jetstream), streams=saved)
    write_manifest(directory, manifest)
    return manifest


def _require_empty(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        is_empty = next(directory.iterdir(), None) is None
    except OSError as exc:
        raise TargetInUse(f"{directory} cannot be written: {exc.strerror}") from exc
    if not is_empty:
        raise TargetInUse(
            f"{directory} is not empty: a backup overwrites nothing, name a new directory"
        )


async def _save(jetstream: JetStream, name: str, directory: Path) -> SavedStream:
    size, digest = 0, hashlib.sha256()
    with create_private(directory / f"{name}.tar.s2") as file:

        def write(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)
            digest.update(chunk)
            file.write(chunk)

        snapshot = await take_snapshot(jetstream, name, write)
        file.flush()
        os.fsync(file.fileno())
    state = snapshot.state
    return SavedStream(
        name=name,
        file=f"{name}.tar.s2",
        bytes=size,
        sha256=digest.hexdigest(),
        messages=state["messages"],
        last_sequence=state["last_seq"],
        consumers=state.get("consumer_count", 0),
        config=snapshot.config,
        state=state,
    )


def _server_version(jetstream: JetStream) -> str:
    return str(jetstream.connection._server_info.get("version", ""))


# -- Every stream of a backup, made again on a server that has none of them.


class RestoredStream(Struct, frozen=True):
    """`missing_consumers`: durables that the snapshot should hold and does not. A server leaves out
    those whose copies are on other servers than the stream's leader
    (https://github.com/nats-io/nats-server/issues/7829).
    """

    name: str
    messages: int
    last_sequence: int
    consumers: int
    missing_consumers: int


OnRestored = Callable[[RestoredStream], None]


async def restore(
    jetstream: JetStream,
    directory: Path,
    manifest: Manifest,
    effects: Collection[str],
    *,
    replicas: int | None = None,
    on_restored: OnRestored = lambda _: None,
) -> list[RestoredStream]:
    """Make every stream. `effects`: streams that must know older ids afterwards; `replicas`: other
    copies than were saved.

    Raises UnusableBackup for a damaged file and TargetInUse where one of the streams exists, both
    before the first one is made.
    """
    verify_files(directory, manifest)
    await _require_none(jetstream, manifest)
    restored = []
    for saved in manifest.streams:
        config = _adapt(saved, manifest.began_at, effects, replicas)
        chunks = read_chunks(directory / saved.file)
        info = await restore_snapshot(jetstream, saved.name, Snapshot(config, saved.state), chunks)
        restored.append(_describe(saved, info["state"]))
        on_restored(restored[-1])
    return restored


async def _require_none(jetstream: JetStream, manifest: Manifest) -> None:
    existing = [
        saved.name for saved in manifest.streams if await jetstream.stream(saved.name) is not None
    ]
    if existing:
        raise TargetInUse(
            "nothing was restored, for these streams exist, and none is overwritten: "
            f"{', '.join(existing)}"
        )


def _adapt(
    saved: SavedStream, began_at: datetime, effects: Collection[str], replicas: int | None
) -> Json:
    config = (
        widen(saved.config, began_at, datetime.now(UTC)) if saved.name in effects else saved.config
    )
    return config if replicas is None else {**config, "num_replicas": replicas}


def _describe(saved: SavedStream, state: Json) -> RestoredStream:
    consumers = state.get("consumer_count", 0)
    return RestoredStream(
        saved.name,
        state["messages"],
        state["last_seq"],
        consumers,
        max(saved.consumers - consumers, 0),
    )
