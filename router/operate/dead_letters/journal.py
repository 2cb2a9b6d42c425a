"""The record that a replay stores before it sends anything, and how the next replay finishes it
after a kill.

One key in a bucket beside the dead letters' stream, gone when a replay ended well:

    {voice, runs[…], floors{stream: sequence}, since, written}

    voice    an inbox on which the process answers while it is connected: an answer means that a
             replay is running
    runs     secrets: the header `x-replay-run` of a message proves by one of them that a replay
             sent it under its id. Who receives the
             message sees the proof, and can make none for another id
    floors   in each target stream, the last sequence before its first message: whatever it sent
             stands above
    since    when the dead letters' stream was created: in another one the same sequence is another
             dead letter
    written  in a copy of that stream, restored or promoted: the time of the entry; only older dead
             letters are the same

The key is written with the revision that was read, so of two that start at once one is refused.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from secrets import token_hex

import msgspec
import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import BrokerUnavailable, RouterError
from router.core.ids import bucket_prefix
from router.core.message import Effect
from router.delivery.consume.stream_reader import open_reader
from router.delivery.publish.acked_publisher import AckedPublisher, NotPublished
from router.delivery.wire.api import LAST_SEQUENCE_DIFFERS, JetStream, Json, StoredMessage, nanos
from router.delivery.wire.frames import Headers
from router.delivery.wire.topology import StreamSpec, Topology, bucket, create
from router.operate.dead_letters.discard import remove
from router.operate.dead_letters.original import REPLAY_RUN
from router.operate.dead_letters.selection import SELECTION_PAGE

KEY = "run"
JOURNAL_TIMEOUT_S = 2.0


class ReplayRunning(RouterError):
    """Another replay of the same dead letters is running; wait for its end, or end it."""

    code = "replay_running"


class JournalEntry(Struct, frozen=True):
    """The key's value. `written`: nanoseconds since the epoch; 0: the dead letters' stream is the
    one of `since`.
    """

    voice: str
    since: str
    runs: tuple[str, ...]
    floors: dict[str, int] = {}
    written: int = 0


def journal_bucket(dead_letters: str, replicas: int = 1) -> StreamSpec:
    """The bucket of the journal beside a stream of dead letters; the first replay makes it."""
    return bucket(f"{dead_letters}_REPLAYS", replicas=replicas)


def prove(run: str, message_id: str) -> str:
    """Return the value of `x-replay-run` for a message of this id."""
    return hmac.new(
        run.encode(), message_id.encode("utf-8", "surrogateescape"), "sha256"
    ).hexdigest()[:32]


class ReplayJournal:
    """The journal of one run. `run` is its secret."""

    def __init__(self, jetstream: JetStream, publisher: AckedPublisher, dead_letters: str) -> None:
        self.run = token_hex(12)
        self.floors: dict[str, int] = {}
        self._jetstream = jetstream
        self._connection = jetstream.connection
        self._publisher = publisher
        self._dead_letters = dead_letters
        self._since = ""
        self._bucket = f"{dead_letters}_REPLAYS"
        self._subject = bucket_prefix(self._bucket) + KEY
        self._voice = self._connection.new_inbox()
        self._revision = 0
        self._sid = 0

    async def begin(self) -> JournalEntry | None:
        """Make the key ours. A JournalEntry: what an earlier replay left unfinished. Raises
        ReplayRunning.
        """
        info = await self._jetstream.stream(self._dead_letters) or {}
        copies = info.get("config", {}).get("num_replicas", 1)  # as many as the dead letters have
        await create(self._jetstream, Topology((journal_bucket(self._dead_letters, copies),)))
        self._sid = await self._connection.subscribe_direct(
            self._voice,
            lambda _, reply, *__: self._connection.publish_nowait(reply, b"+") if reply else None,
        )
        self._since = str(info.get("created", ""))
        stored = await self._jetstream.get_last(f"KV_{self._bucket}", self._subject)
        self._revision = stored.sequence if stored is not None else 0
        before = _read(stored) if stored is not None else None
        if before is not None and await self._is_answered(before.voice):
            raise ReplayRunning("another replay of these dead letters is running")
        if before is not None and (before := _find_unfinished(before, info)) is not None:
            await self._write(replace(before, voice=self._voice, runs=(*before.runs, self.run)))
            return before
        await self._write(self._entry((self.run,)))
        return None

    async def finished_earlier(self) -> None:
        """The earlier replay is finished: from here on the entry is this run's alone."""
        await self._write(self._entry((self.run,)))

    async def note(self, floors: Mapping[str, int]) -> None:
        """Store the floors of streams, before the first message to them: the next replay searches
        from there.
        """
        self.floors = {**floors, **self.floors}
        await self._write(self._entry((self.run,), self.floors))

    async def end(self) -> None:
        """Delete the key: no message is in doubt."""
        await self._write(None)

    async def close(self) -> None:
        await self._connection.unsubscribe(self._sid)

    def _entry(self, runs: tuple[str, ...], floors: dict[str, int] | None = None) -> JournalEntry:
        return JournalEntry(self._voice, self._since, runs, floors or {})

    async def _write(self, entry: JournalEntry | None) -> None:
        headers = {"Nats-Expected-Last-Subject-Sequence": str(self._revision)}
        if entry is None:
            headers["KV-Operation"] = "DEL"
        data = orjson.dumps(msgspec.to_builtins(entry)) if entry is not None else b""
        told = await self._publisher.publish_and_wait(
            [Effect(self._jetstream.write_subject(self._subject), data, token_hex(12), headers)]
        )
        if isinstance(told, NotPublished):
            if told.err_code in LAST_SEQUENCE_DIFFERS:
                raise ReplayRunning("another replay of these dead letters has begun")
            raise BrokerUnavailable(
                f"the replay cannot be written down in {self._bucket}: {told.cause}"
            )
        self._revision = told[0].sequence

    async def _is_answered(self, voice: str) -> bool:
        """Whether a process answers on the inbox. No reply counts as yes: only the server's 503
        proves that a process is gone.
        """
        heard: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

        def hear(_: str, __: str, ___: bytes, headers: Headers | None) -> None:
            if not heard.done():
                heard.set_result((headers or {}).get("Status") != "503")

        ear = self._connection.new_inbox()
        sid = await self._connection.subscribe_direct(ear, hear)
        self._connection.publish_nowait(voice, b"", ear)
        try:
            async with asyncio.timeout(JOURNAL_TIMEOUT_S):
                return await heard
        except TimeoutError:
            return True
        finally:
            await self._connection.unsubscribe(sid)


def _read(stored: StoredMessage) -> JournalEntry | None:
    """None: the key was deleted, as it is at a good end. The entry has the time at which it was
    written.
    """
    if not stored.data:
        return None
    entry = msgspec.json.decode(stored.data, type=JournalEntry)
    return replace(entry, written=entry.written or nanos(stored.time))


def _find_unfinished(before: JournalEntry, dead_letters: Json) -> JournalEntry | None:
    """What is left of that replay in this stream of dead letters (its info); None: nothing, it was
    another stream.

    A copy has another time of creation too. It holds dead letters that are older than the entry,
    which one that was made anew does not.
    """
    if before.since == str(dead_letters.get("created", "")):
        return replace(before, written=0)
    state = dead_letters.get("state", {})
    is_copy = bool(state.get("messages")) and nanos(state["first_ts"]) < before.written
    return before if before.floors and is_copy else None


# -- Finish an interrupted replay: remove the dead letters whose messages stand in their streams.
#
# Its messages stand above the stream's floor and bear a proof, so each that stands there is
# proven to be sent. That one was not sent is proven only while every message above the floor
# still stands there. A work queue removes each message that was consumed, the routers remove
# assignments that are done, and any stream may have removed its oldest: then it is not known what
# was sent.


REPLAYED_ID = re.compile(r"replay:[0-9]{1,19}:[0-9]{1,19}", re.ASCII)
ARRIVAL_DELAY_S = 0.25  # after its process is gone: what it sent has been stored by then
MAX_GETS_AT_ONCE = 100  # of single messages


class ReplayUnprovable(RouterError):
    """Messages of an interrupted replay may have left their stream already, so it cannot be proven
    what was sent.
    """

    code = "replay_unprovable"


async def finish(
    jetstream: JetStream, dead_letters: str, before: JournalEntry, *, is_forgetful: bool
) -> int:
    """Remove the dead letters whose messages an interrupted replay has sent; return how many.

    `dead_letters`: the stream of dead letters. Raises BrokerUnavailable, and ReplayUnprovable
    unless `is_forgetful`.
    """
    if before.floors:
        await asyncio.sleep(ARRIVAL_DELAY_S)
    finished = 0
    for stream, floor in before.floors.items():
        info = await jetstream.stream(stream)
        if info is None:
            continue  # what it sent there is gone, and was lost with the stream
        last, standing = int(info["state"]["last_seq"]), 0
        async for batch in _read_above(jetstream, info, floor):
            standing += sum(message.sequence <= last for message in batch)
            sent = _list_sent(batch, before.runs)
            finished += await remove(
                jetstream,
                dead_letters,
                await _keep_older(jetstream, dead_letters, sent, before.written)
                if before.written
                else sent,
            )
        if (gone := last - floor - standing) > 0 and not is_forgetful:
            raise ReplayUnprovable(_describe_loss(stream, floor, last, gone))
    return finished


def read_dead_letter_sequence(message_id: str) -> int:
    """The sequence of the dead letter in the id of its replayed message, `replay:{sequence}:{n}`."""
    return int(message_id.split(":")[1])


async def _read_above(
    jetstream: JetStream, info: Json, floor: int
) -> AsyncIterator[Sequence[StoredMessage]]:
    """Yield pages of what stands above the floor. A work queue is read by sequence: it allows no
    consumer that only reads.
    """
    stream, last = info["config"]["name"], int(info["state"]["last_seq"])
    if info["config"]["retention"] == "workqueue":
        async for batch in _get_range(jetstream, stream, floor + 1, last):
            yield batch
        return
    async with open_reader(jetstream, stream, floor + 1, headers_only=True) as reader:
        async for batch in reader.read_all(SELECTION_PAGE):
            yield batch


async def _get_range(
    jetstream: JetStream, stream: str, start: int, last: int
) -> AsyncIterator[Sequence[StoredMessage]]:
    """Yield messages from `start` to `last`, at most MAX_GETS_AT_ONCE in a page; `get_next` steps
    over a gap.
    """
    while (
        start <= last
        and (first := await jetstream.get_next(stream, ">", start)) is not None
        and first.sequence <= last
    ):
        start = min(first.sequence + MAX_GETS_AT_ONCE, last + 1)
        others = await asyncio.gather(
            *(jetstream.message(stream, sequence) for sequence in range(first.sequence + 1, start))
        )
        yield [first, *(message for message in others if message is not None)]


def _list_sent(messages: Sequence[StoredMessage], runs: Collection[str]) -> list[int]:
    """The dead letters of those messages that a replay sent. Others may bear such a header: who
    receives a message may copy its headers.
    """
    ids = [
        (message.headers.get("Nats-Msg-Id", ""), message.headers[REPLAY_RUN])
        for message in messages
        if REPLAY_RUN in message.headers
    ]
    return [
        read_dead_letter_sequence(message_id)
        for message_id, proof in ids
        if REPLAYED_ID.fullmatch(message_id) and _is_proven(message_id, proof, runs)
    ]


def _is_proven(message_id: str, proof: str, runs: Collection[str]) -> bool:
    return any(
        hmac.compare_digest(proof.encode("utf-8", "replace"), prove(run, message_id).encode())
        for run in runs
    )


async def _keep_older(
    jetstream: JetStream, dead_letters: str, sequences: Sequence[int], written: int
) -> list[int]:
    """Those of the dead letters that are older than the entry (nanoseconds): in a copy, a later one
    is another of the same number.
    """
    older: list[int] = []
    for start in range(0, len(sequences), MAX_GETS_AT_ONCE):
        handful = sequences[start : start + MAX_GETS_AT_ONCE]
        messages = await asyncio.gather(
            *(jetstream.message(dead_letters, sequence) for sequence in handful)
        )
        older += [
            message.sequence
            for message in messages
            if message is not None and nanos(message.time) < written
        ]
    return older


def _describe_loss(stream: str, floor: int, last: int, gone: int) -> str:
    are = "is" if gone == 1 else "are"
    return (
        f"what an interrupted replay sent to {stream} may be gone: {gone} of the "
        f"{last - floor} messages above {floor} {are} gone"
    )
