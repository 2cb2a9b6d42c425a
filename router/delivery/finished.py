"""Messages of a stream that are finished leave it: those that every durable on their subject has settled, and those named as done.

    every look      note the time and the stream's last sequence
    how far         what is older than the duplicate window, for the server tells a message that comes again by the one it holds;
                    where the stream is half full, all but the newest one, without which the server may forget where it was
    by the floor    one purge for each subject: up to what all its durables have settled; a subject that no durable takes keeps all
    one by one      above the floor, where one message that is not settled holds it: those whose ids were named (`finish`)

It runs beside the messages and is asked by none of them. What is missed, because a process died or a purge was not answered,
is found by the next look of any instance: a purge up to a sequence and a removal of one may be repeated.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence

from msgspec import Struct

from router.core.clock import Clock, steady
from router.core.errors import RouterError
from router.core.ids import subject_matcher
from router.delivery.api import JetStream, Json
from router.delivery.stream_reader import open_reader

TIGHT_FROM = 0.5
MAX_FINISHED_IDS = 100_000  # ids that are done and may still stand in the stream
MAX_READ = 20_000  # heads a look
READ_BATCH = 1_000
MAX_CONCURRENT_REMOVALS = 100  # removals on their way
MAX_CONSUMER_PAGES = 64  # of a list of consumers
SETTLES = ("explicit", "all")


class RemovalRules(Struct, frozen=True, kw_only=True):
    """Which stream, whose messages, and how long they are kept at least. Durations are seconds."""

    stream: str
    subjects: tuple[str, ...]
    every: float
    keep: float  # the stream's duplicate window


class State(Struct, frozen=True):
    """A stream at one look: how far it reaches, and how far messages may go."""

    first: int
    last: int
    up_to: int
    is_tight: bool


class FinishedRemoval:
    """Of one stream. `finish` is called on the loop, once a message at most: it is a dictionary's work."""

    def __init__(
        self,
        jetstream: JetStream,
        rules: RemovalRules,
        on_removed: Callable[[int], None] = lambda _: None,
        on_failure: Callable[[RouterError], None] = lambda _: None,
        clock: Clock = steady,
    ) -> None:
        self._jetstream = jetstream
        self._rules = rules
        self._on_removed = on_removed
        self._on_failure = on_failure
        self._clock = clock
        self._notes: deque[tuple[float, int]] = deque()  # (when, the last sequence then), oldest first
        self._named: OrderedDict[str, None] = OrderedDict()  # oldest first
        self._read_to = 0

    def finish(self, message_id: str) -> None:
        """The message of this id is done, whether its durable has settled it or not."""
        self._named[message_id] = None
        if len(self._named) > MAX_FINISHED_IDS:
            self._named.popitem(last=False)

    async def run(self) -> None:
        """A child: look, for ever; while the broker is away, nothing is removed."""
        while True:
            try:
                await self.look()
            except RouterError as exc:
                self._on_failure(exc)
            await asyncio.sleep(self._rules.every)

    async def look(self) -> int:
        """Remove what may go; how many went. Raises BrokerUnavailable, BrokerRefused."""
        info = await self._jetstream.stream(self._rules.stream)
        if info is None:
            return 0
        state = self._state(info)
        consumers = await self._consumers()
        floors = {subject: _floor(subject, consumers, state) for subject in self._rules.subjects}
        removed = sum([await self._purge(subject, min(floor, state.up_to), state) for subject, floor in floors.items()])
        is_held = min(floors.values()) < state.up_to and state.first <= state.up_to
        if is_held and self._named:
            removed += await self._remove_named(state)
        self._on_removed(removed)
        return removed

    def _state(self, info: Json) -> State:
        state, limit = info["state"], info["config"].get("max_bytes", -1)
        is_tight = 0 < limit * TIGHT_FROM <= state["bytes"]
        now, last = self._clock(), state["last_seq"]
        if self._notes and last < self._notes[-1][1]:
            self._notes.clear()  # another stream of this name
        old = self._find_last_before(now - self._rules.keep)
        self._notes.append((now, last))
        return State(state["first_seq"], last, last - 1 if is_tight else min(old, last - 1), is_tight)

    def _find_last_before(self, until: float) -> int:
        """The stream's last sequence at that time, as it was noted; 0: it was not looked at by then."""
        while len(self._notes) > 1 and self._notes[1][0] <= until:
            self._notes.popleft()
        return self._notes[0][1] if self._notes and self._notes[0][0] <= until else 0

    async def _consumers(self) -> Sequence[Json]:
        """Every durable that settles what it is given: one that comes and goes, or settles nothing, says nothing of a message."""
        found: list[Json] = []
        for _ in range(MAX_CONSUMER_PAGES):
            page = await self._jetstream.ask(f"CONSUMER.LIST.{self._rules.stream}", {"offset": len(found)})
            found += page["consumers"] or []
            if not page["consumers"] or len(found) >= page["total"]:
                break
        return [one for one in found if one["config"].get("durable_name") and one["config"].get("ack_policy") in SETTLES]

    async def _purge(self, subject: str, up_to: int, state: State) -> int:
        if up_to < state.first:
            return 0
        answer = await self._jetstream.ask(f"STREAM.PURGE.{self._rules.stream}", {"filter": subject, "seq": up_to + 1})
        return int(answer["purged"])

    async def _remove_named(self, state: State) -> int:
        """Look through what stands there, some of it at each look, for ids that are done."""
        start = max(self._read_to + 1, state.first)
        if start > state.up_to:
            start = state.first
        done: list[int] = []
        self._read_to = state.up_to
        async with open_reader(self._jetstream, self._rules.stream, start, headers_only=True) as reader:
            left = min(reader.total, MAX_READ)
            while left > 0 and (found := await reader.read(min(READ_BATCH, left))):
                left -= len(found)
                self._read_to = min(found[-1].sequence, state.up_to)
                done += [
                    one.sequence for one in found if one.sequence <= state.up_to and self._is_named(one.headers.get("Nats-Msg-Id", ""))
                ]
                if found[-1].sequence >= state.up_to:
                    break
        return await self._remove(done)

    def _is_named(self, message_id: str) -> bool:
        if message_id not in self._named:
            return False
        del self._named[message_id]
        return True

    async def _remove(self, sequences: Sequence[int]) -> int:
        """One that fails is left to its durable, or to the stream's age."""
        api, removed = f"STREAM.MSG.DELETE.{self._rules.stream}", 0
        for start in range(0, len(sequences), MAX_CONCURRENT_REMOVALS):
            asked = [self._jetstream.ask(api, {"seq": one, "no_erase": True}) for one in sequences[start : start + MAX_CONCURRENT_REMOVALS]]
            removed += sum(isinstance(answer, dict) for answer in await asyncio.gather(*asked, return_exceptions=True))
        return removed


def _floor(subject: str, consumers: Sequence[Json], state: State) -> int:
    """Up to where every durable on the subject has settled all; 0: there is none, so none of it is settled."""
    return min((_find_settled(one, state) for one in consumers if _is_subscribed(one["config"], subject)), default=0)


def _is_subscribed(config: Json, subject: str) -> bool:
    filters = config.get("filter_subjects") or [config.get("filter_subject") or ">"]
    return subject_matcher(tuple(filters))(subject)


def _find_settled(consumer: Json, state: State) -> int:
    """Its own floor stands at the last message that it took. In a cluster it may not know of the newest one yet."""
    if consumer["num_pending"] == 0 and consumer["num_ack_pending"] == 0 and not state.is_tight:
        return state.last
    return int(consumer["ack_floor"]["stream_seq"])
