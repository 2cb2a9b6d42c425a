"""Remove finished messages from a stream: those that every durable on their subject has settled,
and those whose ids were named.

    each run        note the time and the stream's last sequence
    how far         up to messages older than the duplicate window, because the server recognises a
                    duplicate by the message it holds;
                    in a stream that is a quarter full all but the newest, without which the server
                    may forget its last sequence
    by the floor    one purge for each subject, up to the ack floor of all its durables; a subject
                    without a durable keeps everything
    one by one      above a floor that one unsettled message holds down: the messages whose ids were
                    named (`finish`)

Of several instances one does each run, and the others hear what it found (`shared_info`): they note
the last sequence too, because any of them may do the next run. An instance whose named messages are
held down removes those itself.

No message waits for it. If a process dies or a purge gets no answer, the next run of any instance
finds the same messages: purges and removals may be repeated.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from router.core.clock import Clock, spread, steady
from router.core.errors import RouterError
from router.core.ids import subject_matcher
from router.delivery.consume.stream_reader import open_reader
from router.delivery.settings import StreamConfig
from router.delivery.wire.api import JetStream, Json
from router.delivery.wire.shared_info import SharedInfo

# half of what `shares.COUNTED_FROM` allows: what is finished must be gone before it is counted as a
# tenant's share
TIGHT_FROM = 0.25
MAX_FINISHED_IDS = 100_000  # whose messages may still be in the stream
MAX_READ = 20_000  # headers read in one run
READ_BATCH = 1_000
MAX_CONCURRENT_REMOVALS = 100
MAX_CONSUMER_PAGES = 64  # of the stream's list of consumers
MAX_AGE = 0.7  # of a run that counts as this instance's, as a part of the interval
SETTLES = ("explicit", "all")


class State(Struct, frozen=True):
    """A stream's first and last sequence, and up to which one messages may be removed."""

    first: int
    last: int
    up_to: int
    is_tight: bool


class FinishedRemoval:
    """For one stream. `finish` costs one write to a dictionary."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: StreamConfig,
        subjects: tuple[str, ...],
        every_s: float,
        *,
        on_removed: Callable[[int], None] = lambda _: None,
        on_failure: Callable[[RouterError], None] = lambda _: None,
        clock: Clock = steady,
        infos: SharedInfo | None = None,
    ) -> None:
        """Messages on `subjects` go, every `every_s` seconds; none before the stream's duplicate
        window has passed.
        """
        self._jetstream = jetstream
        self._infos = infos if infos is not None else SharedInfo(jetstream)
        self._stream, self._subjects, self._every_s = stream.name, subjects, every_s
        # The server needs them that long to detect duplicates.
        self._keep_s = stream.duplicate_window_ms / 1000
        self._on_removed = on_removed
        self._on_failure = on_failure
        self._clock = clock
        # (when, the last sequence then), oldest first
        self._notes: deque[tuple[float, int]] = deque()
        self._created = ""  # which stream they are of
        self._named: OrderedDict[str, None] = OrderedDict()  # oldest first
        # of its runs, among what instances share
        self.key = f"FINISHED.{self._stream}.{','.join(subjects)}"
        self._read_to = 0
        self._runs = 0
        self._is_held = False  # in the last run one unsettled message held others down

    def finish(self, message_id: str) -> None:
        """The message with this id may be removed, also if its durable has not settled it."""
        self._named[message_id] = None
        if len(self._named) > MAX_FINISHED_IDS:
            self._named.popitem(last=False)

    async def run(self) -> None:
        """A supervised child. While the broker is unavailable, nothing is removed."""
        while True:
            try:
                await self.take_turn()
            except RouterError as exc:
                self._on_failure(exc)
            await asyncio.sleep(spread(self._every_s))

    async def take_turn(self) -> None:
        """`look`, unless another instance did just now. Raises as `look` does."""
        runs = self._runs
        run = await self._infos.read(self.key, MAX_AGE * self._every_s, self._look_and_tell)
        if self._runs != runs or run is None:
            return
        if "created" not in run:  # told by another version: whether its stream is ours is not known
            await self.look()
            return
        self._note(self._clock(), run["created"], run["last_seq"])
        if run["is_held"] and self._named:
            await self.look()

    async def _look_and_tell(self) -> Json | None:
        await self.look()
        return (
            {"created": self._created, "last_seq": self._notes[-1][1], "is_held": self._is_held}
            if self._notes
            else None
        )

    async def look(self) -> int:
        """Remove finished messages; returns how many. Raises BrokerUnavailable, BrokerRefused."""
        self._runs += 1
        info = await self._infos.stream(self._stream)
        if info is None:
            self._notes.clear()
            return 0
        state, self._is_held = self._state(info), False
        if not info["state"]["messages"]:
            return 0
        consumers = await self._consumers()
        floors = {subject: _floor(subject, consumers, state) for subject in self._subjects}
        removed = sum(
            [
                await self._purge(subject, min(floor, state.up_to), state)
                for subject, floor in floors.items()
            ]
        )
        self._is_held = min(floors.values()) < state.up_to and state.first <= state.up_to
        if self._is_held and self._named:
            removed += await self._remove_named(state)
        self._on_removed(removed)
        return removed

    def _state(self, info: Json) -> State:
        state, limit = info["state"], info["config"].get("max_bytes", -1)
        is_tight = 0 < limit * TIGHT_FROM <= state["bytes"]
        now, last = self._clock(), state["last_seq"]
        old = self._note(now, info["created"], last)
        return State(
            state["first_seq"], last, last - 1 if is_tight else min(old, last - 1), is_tight
        )

    def _note(self, now: float, created: str, last: int) -> int:
        """Note the stream's last sequence; returns the one that is old enough."""
        if created != self._created or (self._notes and last < self._notes[-1][1]):
            self._notes.clear()  # another stream, or one that has lost its end
            self._created = created
        old = self._find_last_before(now - self._keep_s)
        self._notes.append((now, last))
        return old

    def _find_last_before(self, until: float) -> int:
        """The stream's last sequence at that time; 0: none was noted by then."""
        while len(self._notes) > 1 and self._notes[1][0] <= until:
            self._notes.popleft()
        return self._notes[0][1] if self._notes and self._notes[0][0] <= until else 0

    async def _consumers(self) -> Sequence[Json]:
        """Every durable that acks: ephemeral consumers, and those without acks, do not matter."""
        consumers: list[Json] = []
        for _ in range(MAX_CONSUMER_PAGES):
            page = await self._jetstream.ask(
                f"CONSUMER.LIST.{self._stream}", {"offset": len(consumers)}
            )
            consumers += page["consumers"] or []
            if not page["consumers"] or len(consumers) >= page["total"]:
                break
        return [
            consumer
            for consumer in consumers
            if consumer["config"].get("durable_name")
            and consumer["config"].get("ack_policy") in SETTLES
        ]

    async def _purge(self, subject: str, up_to: int, state: State) -> int:
        if up_to < state.first:
            return 0
        answer = await self._jetstream.ask(
            f"STREAM.PURGE.{self._stream}", {"filter": subject, "seq": up_to + 1}
        )
        return int(answer["purged"])

    async def _remove_named(self, state: State) -> int:
        """Search the stream, a part in each run, for messages whose ids were named."""
        start = max(self._read_to + 1, state.first)
        if start > state.up_to:
            start = state.first
        done: list[int] = []
        self._read_to = state.up_to
        async with open_reader(self._jetstream, self._stream, start, headers_only=True) as reader:
            async for batch in reader.read_all(READ_BATCH, MAX_READ):
                self._read_to = min(batch[-1].sequence, state.up_to)
                done += [
                    message.sequence
                    for message in batch
                    if message.sequence <= state.up_to
                    and self._is_named(message.headers.get("Nats-Msg-Id", ""))
                ]
                if batch[-1].sequence >= state.up_to:
                    break
        return await self._remove(done)

    def _is_named(self, message_id: str) -> bool:
        if message_id not in self._named:
            return False
        del self._named[message_id]
        return True

    async def _remove(self, sequences: Sequence[int]) -> int:
        """A message whose removal fails stays until its durable settles it, or it is too old."""
        api, removed = f"STREAM.MSG.DELETE.{self._stream}", 0
        for start in range(0, len(sequences), MAX_CONCURRENT_REMOVALS):
            asked = [
                self._jetstream.ask(api, {"seq": sequence, "no_erase": True})
                for sequence in sequences[start : start + MAX_CONCURRENT_REMOVALS]
            ]
            removed += sum(
                isinstance(answer, dict)
                for answer in await asyncio.gather(*asked, return_exceptions=True)
            )
        return removed


def _floor(subject: str, consumers: Sequence[Json], state: State) -> int:
    """The sequence up to which every durable on the subject has settled all messages; 0: there is
    no durable.
    """
    return min(
        (
            _find_settled(consumer, state)
            for consumer in consumers
            if _is_subscribed(consumer["config"], subject)
        ),
        default=0,
    )


def _is_subscribed(config: Json, subject: str) -> bool:
    filters = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    return subject_matcher(tuple(filters))(subject)


def _find_settled(consumer: Json, state: State) -> int:
    """A durable without pending messages has settled all. (In a cluster it may not know the newest
    message: not if the stream is tight.)
    """
    if consumer["num_pending"] == 0 and consumer["num_ack_pending"] == 0 and not state.is_tight:
        return state.last
    return int(consumer["ack_floor"]["stream_seq"])
