"""Publish replayed messages, and prove that their stream holds them.

    a stream that acknowledges    its publish ack. A duplicate counts if the message at its sequence
                                  is this very one
    a `no_ack` stream (decide)    the message itself, seen in the stream under its id: no PubAck is
                                  to be had,
                                  and a reply address would make us a requester who is answered with
                                  a decision
    its partitions                likewise, in whichever of their streams it is stored: it is
                                  published to the public subject,
                                  and the mapping draws the partition; the server does not tell
                                  which

These classes return proofs only; `replay` acts on them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from typing import Protocol

from msgspec import Struct

from router.core.crashpoints import crashpoint_sent
from router.core.message import Effect
from router.delivery.consume.stream_reader import StreamReader, open_reader
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished, PublishAcks
from router.delivery.publish.encoded_headers import head_with_id
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.selection import SELECTION_PAGE
from router.operate.topology.declared_topology import list_partition_streams

PUBLISH_TIMEOUT_S = 5.0  # without news of a message that was sent
LOOK_EVERY_S = 0.01


class Unproven(Struct, frozen=True):
    """There is no proof. `is_certain`: the stream refused it; else it may be stored after all."""

    cause: str
    is_certain: bool


Proofs = Mapping[str, Unproven | None]  # by effect id; None: it stands there


class ReplayPublisher(Protocol):
    """One subject. `floors`: of each stream that may store it, the last sequence before anything
    was sent.
    """

    @property
    def floors(self) -> Mapping[str, int]: ...

    async def send(self, effects: Sequence[Effect]) -> Proofs:
        """Send all, and wait for the proofs."""


class AckedReplayPublisher:
    """Publishes to a subject whose streams answer with publish acks."""

    def __init__(
        self, jetstream: JetStream, publisher: AckedPublisher, floors: Mapping[str, int]
    ) -> None:
        self.floors = floors
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
            return Unproven(
                f"{' or '.join(self.floors)} did not take it: {told.cause}",
                is_certain=told.err_code != 0,
            )
        publish_ack = told[0]
        if not publish_ack.is_duplicate:
            return None
        stored = await self._jetstream.message(publish_ack.stream, publish_ack.sequence)
        if stored is not None and (stored.headers.get("Nats-Msg-Id"), stored.data) == (
            effect.id,
            effect.data,
        ):
            return None
        why = (
            "but holds its message no more"
            if stored is None
            else "but holds another message under it"
        )
        return Unproven(
            (
                f"{publish_ack.stream} remembers its id {effect.id} until its duplicate window "
                f"ends, {why}"
            ),
            is_certain=True,
        )


class NoAckReplayPublisher:
    """Publishes to a subject of which a stream is `no_ack`, and reads what its streams store from
    then on.
    """

    def __init__(self, jetstream: JetStream, floors: Mapping[str, int]) -> None:
        self.floors = floors
        self._jetstream = jetstream

    async def send(self, effects: Sequence[Effect]) -> Proofs:
        missing = {effect.id for effect in effects}
        async with AsyncExitStack() as stack:
            starts = await read_last_sequences(self._jetstream, self.floors)
            readers = [
                await stack.enter_async_context(self._open(stream, last + 1))
                for stream, last in starts.items()
            ]
            for effect in effects:
                self._jetstream.connection.publish_nowait(
                    effect.subject, effect.data, "", head_with_id(effect.headers, effect.id)
                )
            crashpoint_sent("replay_posted")
            await self._read_copies(readers, missing)
        doubt = Unproven(
            f"it was not seen in {' or '.join(self.floors)} within {PUBLISH_TIMEOUT_S:g} s",
            is_certain=False,
        )
        return {effect.id: doubt if effect.id in missing else None for effect in effects}

    def _open(self, stream: str, start: int) -> AbstractAsyncContextManager[StreamReader]:
        return open_reader(self._jetstream, stream, start, headers_only=True)

    async def _read_copies(self, readers: Sequence[StreamReader], missing: set[str]) -> None:
        """Take out of `missing` what the streams hold, until nothing is missing or none of it came
        for PUBLISH_TIMEOUT_S.

        The streams are read in turn, without waiting for one: the mapping may have stored the
        message in another.
        """
        loop = asyncio.get_running_loop()
        left, until = len(missing), loop.time() + PUBLISH_TIMEOUT_S
        while missing and loop.time() < until:
            for reader in readers:
                messages = await reader.read(SELECTION_PAGE)
                missing.difference_update(
                    message.headers.get("Nats-Msg-Id", "") for message in messages
                )
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
        """A stream from before the partitions binds the subject still, and one of partitions may be
        left: all may store it.
        """
        names: Sequence[str] = (
            await self._jetstream.ask("STREAM.NAMES", {"subject": subject})
        ).get("streams") or []
        streams = [*names, *await list_partition_streams(self._jetstream, subject)]
        floors = await read_last_sequences(self._jetstream, streams)
        if not floors:
            return None
        if any([await self._is_no_ack(stream) for stream in floors]):
            return NoAckReplayPublisher(self._jetstream, floors)
        return AckedReplayPublisher(self._jetstream, self._publisher, floors)

    async def _is_no_ack(self, stream: str) -> bool:
        info = await self._jetstream.stream(stream)
        return info is not None and bool(info["config"].get("no_ack"))


async def read_last_sequences(jetstream: JetStream, streams: Iterable[str]) -> Mapping[str, int]:
    """The last sequence of each stream that there is."""
    infos = {stream: await jetstream.stream(stream) for stream in streams}
    return {
        stream: int(info["state"]["last_seq"]) for stream, info in infos.items() if info is not None
    }
