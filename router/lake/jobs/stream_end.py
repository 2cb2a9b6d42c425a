"""What an ingest asks its stream after a cut: how far the tables are behind; and, if that is
wanted, to delete what they hold.

    silver, gold … and the cut are committed ──> the stream's end, the age of its first message that the tables lack ──> StreamReport
                                            └──> purge up to the last sequence of the cut

A purge comes after the cut, which names versions of all tables that hold the batch. Whatever dies
before it leaves the stream as it is, and the next ingest deletes then. A broker that does not
answer ends no ingest: the next cut asks again.
"""

from __future__ import annotations

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
