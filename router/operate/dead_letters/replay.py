"""Replay dead letters: each message is processed once, wherever a replay is killed, and no dead
letter is lost or replayed twice.

The dead letter may go only when the message is proven to stand in its stream, so between the two
there is always a moment in which both are there. A duplicate window does not cover it: decide's is
0.1 s on purpose, and people come back after hours. What covers it is the journal:

    1 begin    make the journal's key ours. Is a replay still running? Refused. Was one killed?
               Finish it: every message
               above its floors that bears its secret stands there, so the dead letter that its id
               names is removed
    2 choose   dead letters, oldest first, a handful at a time; build the messages, id
               `replay:{letter}:{n}`
    3 note     the last sequence of each stream that is about to be sent to for the first time
               (stored before 4)
    4 send     and wait for each proof (`publishers`)
    5 remove   the dead letters whose messages are proven
    6 end      the key goes when every outcome is known; if one is in doubt it stays, and the next
               replay finds out

Killed in 1 the next one begins there again; in 3 nothing was sent; in 4 to 6 the floors and the
secret tell what was. A process' last bytes reach the server before its death does, but a stream
stores a little later than it receives: 1 waits for that (`journal`). A message that fails again
makes a new dead letter; n goes with it as `x-replay-count`, and is capped.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import replace

from router.core.crashpoints import crashpoint
from router.core.header_names import replace_headers
from router.core.message import Effect
from router.delivery.publish.storing import open_publisher
from router.delivery.wire.api import JetStream
from router.operate.dead_letters.discard import remove
from router.operate.dead_letters.journal import (
    ReplayJournal,
    finish,
    prove,
    read_dead_letter_sequence,
)
from router.operate.dead_letters.original import (
    REPLAY_RUN,
    NotReplayed,
    ReplayOptions,
    originals_of,
)
from router.operate.dead_letters.publishers import ReplayPublishers
from router.operate.dead_letters.selection import SELECTION_PAGE, DeadLetterBatch, Progress
from router.process.observability.tracing import trace_replay


class ReplayReport(Struct):
    """What a replay did."""

    sent: int = 0
    finished: int = 0  # dead letters of an interrupted replay whose messages stood there already
    kept: list[NotReplayed] = []
    is_in_doubt: bool = False  # it stopped early: the next replay finds out what stands there

    @property
    def is_whole(self) -> bool:
        return not self.kept and not self.is_in_doubt


async def replay(
    jetstream: JetStream,
    stream: str,
    chosen: AsyncIterator[DeadLetterBatch],
    how: ReplayOptions = ReplayOptions(),  # noqa: B008 - frozen
    *,
    rate: float | None = None,
    is_forgetful: bool = False,
    on_progress: Progress = lambda *_: None,
) -> ReplayReport:
    """Send the chosen dead letters of `stream` again, at most `rate` a second.

    Raises ReplayRunning, ReplayUnprovable (unless `is_forgetful`), BrokerUnavailable. Whatever it
    raises, run it again.
    """
    async with _open_run(jetstream, stream) as run:
        report = ReplayReport(finished=await run.begin(is_forgetful))
        pace = ReplayRate(rate)
        async for handful in chosen:
            report.kept += [
                NotReplayed(sequence, "there is no such dead letter") for sequence in handful.absent
            ]
            await pace.wait_for(len(handful.dead_letters))
            if not await run.send_again(handful, how, report):
                report.is_in_doubt = True
                return report
            on_progress(handful.looked, handful.total)
        await run.end()
        return report


async def rehearse(
    jetstream: JetStream,
    chosen: AsyncIterator[DeadLetterBatch],
    how: ReplayOptions = ReplayOptions(),  # noqa: B008 - frozen
) -> AsyncIterator[Effect | NotReplayed]:
    """What `replay` would send, and what it would keep; nothing is sent, removed or written down."""
    async for handful in chosen:
        for sequence in handful.absent:
            yield NotReplayed(sequence, "there is no such dead letter")
        for original in await originals_of(jetstream, handful.dead_letters, how):
            yield original


class ReplayRate:
    """A limit of messages per second, counted from the first; None: no limit."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._loop = asyncio.get_running_loop()
        self._due = self._loop.time()

    async def wait_for(self, count: int) -> None:
        if self._rate is not None:
            await asyncio.sleep(self._due - self._loop.time())
            self._due = max(self._due, self._loop.time()) + count / self._rate

    @staticmethod
    def handful(rate: float | None) -> int:
        """How many dead letters to take at once, so that the pace is even to the eye."""
        return SELECTION_PAGE if rate is None else max(1, min(SELECTION_PAGE, int(rate / 10)))


class _ReplayRun:
    """One run of the protocol above, step by step."""

    def __init__(
        self, jetstream: JetStream, stream: str, journal: ReplayJournal, outlets: ReplayPublishers
    ) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._journal = journal
        self._outlets = outlets
        self._lives = jetstream.connection.reconnect_count

    async def begin(self, is_forgetful: bool) -> int:
        """Step 1: how many dead letters of an interrupted replay were removed."""
        before = await self._journal.begin()
        if before is None:
            return 0
        finished = await finish(self._jetstream, self._stream, before, is_forgetful=is_forgetful)
        crashpoint("replay_finished")
        await self._journal.finished_earlier()
        return finished

    async def send_again(
        self, handful: DeadLetterBatch, how: ReplayOptions, report: ReplayReport
    ) -> bool:
        """Steps 2 to 5; False: something is in doubt."""
        originals = await originals_of(self._jetstream, handful.dead_letters, how)
        report.kept += [original for original in originals if isinstance(original, NotReplayed)]
        is_certain = True
        for subject, effects in _group_by_subject(
            trace_replay([original for original in originals if isinstance(original, Effect)])
        ).items():
            is_certain &= await self._send(subject, effects, report)
        # Without the broker for a moment, we may have been taken for dead: another replay may have
        # begun.
        return is_certain and self._jetstream.connection.reconnect_count == self._lives

    async def end(self) -> None:
        crashpoint("replay_ending")
        await self._journal.end()

    async def _send(self, subject: str, effects: Sequence[Effect], report: ReplayReport) -> bool:
        outlet = await self._outlets.find(subject)
        if outlet is None:
            report.kept += [
                NotReplayed(read_dead_letter_sequence(effect.id), f"no stream takes {subject}")
                for effect in effects
            ]
            return True
        if not outlet.floors.keys() <= self._journal.floors.keys():
            await self._journal.note(outlet.floors)
            crashpoint("replay_noted")
        proofs = await outlet.send([self._sign(effect) for effect in effects])
        crashpoint("replay_proven")
        proven = [
            read_dead_letter_sequence(effect_id)
            for effect_id, doubt in proofs.items()
            if doubt is None
        ]
        await remove(self._jetstream, self._stream, proven)
        crashpoint("replay_removed")
        report.sent += len(proven)
        doubts = {effect_id: doubt for effect_id, doubt in proofs.items() if doubt is not None}
        report.kept += [
            NotReplayed(read_dead_letter_sequence(effect_id), doubt.cause)
            for effect_id, doubt in doubts.items()
        ]
        return all(doubt.is_certain for doubt in doubts.values())

    def _sign(self, effect: Effect) -> Effect:
        """The message with the proof that this run sent it."""
        return replace(
            effect,
            headers=replace_headers(
                effect.headers, {REPLAY_RUN: prove(self._journal.run, effect.id)}
            ),
        )


@asynccontextmanager
async def _open_run(jetstream: JetStream, stream: str) -> AsyncIterator[_ReplayRun]:
    async with open_publisher(jetstream) as publisher:
        journal, outlets = (
            ReplayJournal(jetstream, publisher, stream),
            ReplayPublishers(jetstream, publisher),
        )
        try:
            yield _ReplayRun(jetstream, stream, journal, outlets)
        finally:
            await journal.close()


def _group_by_subject(effects: Iterable[Effect]) -> Mapping[str, Sequence[Effect]]:
    by_subject: dict[str, list[Effect]] = {}
    for effect in effects:
        by_subject.setdefault(effect.subject, []).append(effect)
    return by_subject
