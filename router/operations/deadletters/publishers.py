"""Publish replayed messages, and prove that their stream holds them.

    a stream that acknowledges    its publish ack. A duplicate counts if the message at its sequence is this very one
    a `no_ack` stream (decide)    the message itself, seen in the stream under its id: no PubAck is to be had,
                                  and a reply address would make us a requester who is answered with a decision
    its partitions                likewise, in whichever of their streams it is stored: it is published to the public subject,
                                  and the mapping draws the partition; the server does not tell which

These classes return proofs only; `replay` acts on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Protocol

from msgspec import Struct

from router.core.crashpoints import crashpoint_sent
from router.core.message import Effect
from router.delivery.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.api import JetStream
from router.delivery.connection import head_of
from router.delivery.partitions import list_partition_streams
from router.delivery.stream_reader import StreamReader, open_reader
from router.operations.deadletters.selection import SELECTION_PAGE

PUBLISH_TIMEOUT_S = 5.0  # without news of a message that was sent
LOOK_EVERY_S = 0.01


class Unproven(Struct, frozen=True):
    """There is no proof. `is_certain`: the stream refused it; else it may be stored after all."""

    cause: str
    is_certain: bool


Proofs = Mapping[str, Unproven | None]  # by effect id; None: it stands there


class ReplayPublisher(Protocol):
    """One subject. `floors`: of each stream that may store it, the last sequence before anything was sent."""

    @property
    def floors(self) -> Mapping[str, int]: ...

    async def send(self, effects: Sequence[Effect]) -> Proofs:
        """Send all, and wait for the proofs."""


class AckedReplayPublisher:
    """Publishes to a stream that answers with publish acks."""

    def __init__(self, jetstream: JetStream, publisher: AckedPublisher, stream: str, floor: int) -> None:
        self.stream = stream
        self.floors = {stream: floor}
        self._jetstream = jetstream
        self._publisher = publisher

    async def send(self, effects: Sequence[Effect]) -> Proofs:
        told: dict[str, PublishAcks | NotPublished] = {}
        all_told = asyncio.Event()

        def tell(effect_id: str, result: PublishAcks | NotPublished) -> None:
            told[effect_id] = result
            if len(told) == len(effects):
                all_told.set()

        for effect in effects:
            self._publisher.publish((effect,), partial(tell, effect.id))
        crashpoint_sent("replay_posted")
        await all_told.wait()
        return {effect.id: await self._proof(effect, told[effect.id]) for effect in effects}

    async def _proof(self, effect: Effect, told: PublishAcks | NotPublished) -> Unproven | None:
        if isinstance(told, NotPublished):
            return Unproven(f"{self.stream} did not take it: {told.cause}", is_certain=told.err_code != 0)
        publish_ack = told[0]
        if not publish_ack.is_duplicate:
            return None
        found = await self._jetstream.message(publish_ack.stream, publish_ack.sequence)
        if found is not None and (found.headers.get("Nats-Msg-Id"), found.data) == (effect.id, effect.data):
            return None
        what = "but holds its message no more" if found is None else "from another message"
        return Unproven(f"{self.stream} remembers its id {effect.id}, {what}, until its duplicate window ends", is_certain=True)


class NoAckReplayPublisher:
    """Publishes to a subject of `no_ack` streams, and reads each of them from its floor on."""

    def __init__(self, jetstream: JetStream, floors: Mapping[str, int]) -> None:
        self.floors = floors
        self._jetstream = jetstream
        self._seen = dict(floors)

    async def send(self, effects: Sequence[Effect]) -> Proofs:
        missing = {effect.id for effect in effects}
        async with AsyncExitStack() as stack:
            readers = {stream: await stack.enter_async_context(self._open(stream)) for stream in self.floors}
            for effect in effects:
                self._jetstream.connection.publish_nowait(
                    effect.subject, effect.data, "", head_of({**effect.headers, "Nats-Msg-Id": effect.id})
                )
            crashpoint_sent("replay_posted")
            await self._look(readers, missing)
        doubt = Unproven(f"it was not seen in {' or '.join(self.floors)} within {PUBLISH_TIMEOUT_S:g} s", is_certain=False)
        return {effect.id: doubt if effect.id in missing else None for effect in effects}

    def _open(self, stream: str) -> AbstractAsyncContextManager[StreamReader]:
        return open_reader(self._jetstream, stream, self._seen[stream] + 1, headers_only=True)

    async def _look(self, readers: Mapping[str, StreamReader], missing: set[str]) -> None:
        """Until none is missing, or none of them came for a while. No stream is waited for: the message may come to another."""
        loop = asyncio.get_running_loop()
        left, until = len(missing), loop.time() + PUBLISH_TIMEOUT_S
        while missing and loop.time() < until:
            for stream, reader in readers.items():
                if found := await reader.read(SELECTION_PAGE):
                    missing.difference_update(message.headers.get("Nats-Msg-Id", "") for message in found)
                    self._seen[stream] = found[-1].sequence
            if len(missing) < left:
                left, until = len(missing), loop.time() + PUBLISH_TIMEOUT_S
            else:
                await asyncio.sleep(LOOK_EVERY_S)


class ReplayPublishers:
    """All publishers of one run, each opened when its subject first occurs."""

    def __init__(self, jetstream: JetStream, publisher: AckedPublisher) -> None:
        self._jetstream = jetstream
        self._publisher = publisher
        self._found: dict[str, ReplayPublisher | None] = {}

    async def find(self, subject: str) -> ReplayPublisher | None:
        """None: no stream takes the subject, so nothing may be sent there."""
        if subject not in self._found:
            self._found[subject] = await self._open(subject)
        return self._found[subject]

    async def _open(self, subject: str) -> ReplayPublisher | None:
        names: Sequence[str] = (await self._jetstream.ask("STREAM.NAMES", {"subject": subject})).get("streams") or []
        info = await self._jetstream.stream(names[0]) if names else None
        if info is not None and not info["config"].get("no_ack"):
            return AckedReplayPublisher(self._jetstream, self._publisher, names[0], int(info["state"]["last_seq"]))
        floors = await self._read_floors([*names, *await list_partition_streams(self._jetstream, subject)])
        return NoAckReplayPublisher(self._jetstream, floors) if floors else None

    async def _read_floors(self, streams: Sequence[str]) -> Mapping[str, int]:
        """Of the `no_ack` streams. One from before the partitions binds the subject still, and a mapping lets nothing reach it."""
        infos = {stream: await self._jetstream.stream(stream) for stream in streams}
        return {
            stream: int(info["state"]["last_seq"]) for stream, info in infos.items() if info is not None and info["config"].get("no_ack")
        }
