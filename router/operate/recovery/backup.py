"""Every stream into a directory, one snapshot after the other. It holds the payloads of all
tenants, so its owner alone reads it.

A durable in a snapshot has acked what it has acked by then, and what an acked message left behind
stands in a stream of its effects. So the caller lists a stream before the streams of its effects:
an effect is stored before its message is acked, hence whatever is acked in the earlier snapshot has
its effect in the later one. The other way round, a message that was acked between the two would
lose its effect.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from router.core.errors import NotFound, RouterError
from router.core.whole_files import create_private
from router.delivery.wire.api import JetStream
from router.operate.recovery.manifest import Manifest, SavedStream, write_manifest
from router.operate.recovery.snapshot import take_snapshot

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
