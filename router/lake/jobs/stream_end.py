"""The two ends of the stream, as an ingest knows them: how far the tables are behind its newest
message, and what was read of its state before a batch.

    silver, gold … and the cut are committed ──> the stream's end, the age of its first message that the tables lack ──> StreamReport
                                            └──> purge up to the last sequence of the cut

A purge comes after the cut, which names versions of all tables that hold the batch. Whatever dies
before it leaves the stream as it is, and the next ingest deletes then. A broker that does not
answer ends no ingest: the next cut asks again.
"""

from __future__ import annotations

from collections import deque

from msgspec import Struct
from msgspec.structs import replace

from router.core.errors import RouterError
from router.delivery.wire.api import nanos
from router.lake.source.broker import Broker, fetch_facts
from router.lake.source.offset import NANOS_PER_S, StreamState
from router.lake.source.options import SourceOptions
from router.lake.warehouse import Progress


class StreamReport(Struct, frozen=True, kw_only=True):
    """The stream after a cut. None: the broker did not say, or did not do it."""

    events_behind: int | None = None  # sequences that the tables do not have
    # how long the first of them has been stored, by the server's clock; 0: there is none
    seconds_behind: float | None = None
    trimmed: int | None = None  # messages that were deleted
    facts: StreamState | None = None  # before anything was deleted


async def _read_report(broker: Broker, stream: str, last: int) -> StreamReport:
    facts = await fetch_facts(broker.jetstream, stream)
    waiting = await broker.jetstream.get_next(stream, ">", last + 1) if facts.last > last else None
    age = 0.0 if waiting is None else (nanos(facts.read_at) - nanos(waiting.time)) / NANOS_PER_S
    return StreamReport(
        events_behind=max(0, facts.last - last), seconds_behind=round(max(0.0, age), 3), facts=facts
    )


async def _trim(broker: Broker, progress: Progress) -> int:
    """Delete what the cut holds, and return how many messages that were. A stream that was made
    anew has other messages.
    """
    if (await fetch_facts(broker.jetstream, progress.stream)).created != progress.created:
        return 0
    answer = await broker.jetstream.ask(
        f"STREAM.PURGE.{progress.stream}", {"seq": progress.last + 1}
    )
    return int(answer["purged"])


class StreamEnd:
    """The stream of one ingest."""

    def __init__(self, options: SourceOptions, *, is_trimmed: bool) -> None:
        self._options = options
        self._is_trimmed = is_trimmed

    def follow(self, progress: Progress) -> StreamReport:
        """Read the lag, and trim the stream. `progress`: of a cut that is committed."""
        report = StreamReport()
        try:
            with Broker(self._options) as broker:
                report = broker.run(_read_report(broker, progress.stream, progress.last))
                if self._is_trimmed:
                    return replace(report, trimmed=broker.run(_trim(broker, progress)))
        except RouterError:
            pass  # what is committed stands; the next cut asks again
        return report


# -- What an ingest has read of its stream's state, each time with a wall clock: it bounds the
# search for what came before.
#
# a batch begins at sequence N ──> the newest state whose last sequence is before N: all of the batch came after it
#
# After that state the stream only lost old messages and got new ones: whatever it held when a
# message of the batch came has a sequence from that state's first on. A newer state is too narrow
# for a batch that waited: the stream may have lost an identity's first message since the second
# one came.


class StreamReading(Struct, frozen=True):
    """The stream's state as it was read, and a time before it was asked for (seconds since the
    epoch).
    """

    facts: StreamState
    at: float

    @property
    def oldest_s(self) -> float | None:
        """The time since which the stream would hold its messages if nothing trimmed it; None: no
        age ends them.
        """
        return self.at - self.facts.max_age_s if self.facts.max_age_s else None


class StreamHistory:
    """The readings of one ingest's stream, the first of them at its start."""

    def __init__(self, facts: StreamState, at: float) -> None:
        self._readings = deque([StreamReading(facts, at)])

    def add(self, facts: StreamState, at: float) -> None:
        """`at`: a time before the stream was asked, seconds since the epoch."""
        self._readings.append(StreamReading(facts, at))

    def find_before(self, sequence: int) -> StreamReading:
        """Return the newest reading whose stream ends before this sequence, else the first one.

        Earlier ones are forgotten: batches go forward.
        """
        while len(self._readings) > 1 and self._readings[1].facts.last < sequence:
            self._readings.popleft()
        return self._readings[0]
