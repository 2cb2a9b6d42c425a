"""Every stream of a backup, made again on a server that has none of them."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from router.delivery.wire.api import JetStream, Json
from router.operate.recovery.backup import TargetInUse
from router.operate.recovery.manifest import Manifest, SavedStream, read_chunks, verify_files
from router.operate.recovery.snapshot import Snapshot, restore_snapshot
from router.operate.recovery.windows import widen


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
    found = [
        saved.name for saved in manifest.streams if await jetstream.stream(saved.name) is not None
    ]
    if found:
        raise TargetInUse(
            "nothing was restored, for these streams exist, and none is overwritten: "
            f"{', '.join(found)}"
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
