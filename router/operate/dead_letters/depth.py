"""Count the dead letters by original subject and reason: the gauge `router_dlq_depth{subject,
reason}`.

Only heads are read, each once: new dead letters are added to what was counted. When the sum is not
what the stream says it holds, dead letters were removed, and the count begins anew; until that is
through, the last good one is shown. One look reads at most `MAX_READ` heads, so a million dead
letters cost no look more than a second.

    DepthGauge(jetstream, settings.streams.dlq.name, metrics.dead_letters_stored, metrics.subject,
    settings.dlq.subject_pattern)

is run beside the consumers: `Helper("dead_letters", depth.run)`.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import suppress

from router.contracts.dead_letter import DEFAULT_SUBJECT_PATTERN
from router.core.clock import spread
from router.core.errors import RouterError
from router.core.outcome import MAXDELIVER_EXHAUSTED, PROCESSING_ERROR, VALIDATION_FAILED
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, StoredMessage
from router.delivery.wire.shared_info import SharedInfo
from router.operate.dead_letters.parse import UNREADABLE, WORKERS_SUBJECTS
from router.process.observability.instruments import Gauge

DEPTH_EVERY_S = 10.0
# of the stream's info in a look; the topology's monitor asks for it more often than that
MAX_AGE_S = 7.0
MAX_READ = 20_000  # heads a look
READ_BATCH = 1_000

SubjectAndReason = tuple[str, str]  # subject, reason
# any other reason is a client's text, not a label
_REASONS = frozenset({VALIDATION_FAILED, MAXDELIVER_EXHAUSTED, PROCESSING_ERROR})


class DepthGauge:
    """The counts, and the sequence up to which they reach. `labels` bounds the subjects."""

    def __init__(
        self,
        jetstream: JetStream,
        stream: str,
        gauge: Gauge,
        labels: Mapping[str, str],
        subject_pattern: str = DEFAULT_SUBJECT_PATTERN,
        *,
        infos: SharedInfo | None = None,
    ) -> None:
        self.counts: Mapping[SubjectAndReason, int] = {}
        self._jetstream = jetstream
        self._infos = infos if infos is not None else SharedInfo(jetstream)
        self._stream = stream
        self._gauge = gauge
        self._labels = labels
        self._original_of = _inverse(subject_pattern)
        self._counting: Counter[SubjectAndReason] = Counter()
        self._until = 0  # dead letters up to here are counted
        self._since = ""  # the stream's creation: in another one sequences begin again

    async def run(self) -> None:
        """Count every ten seconds until cancelled; while the broker is unavailable, the gauge keeps
        the last count.
        """
        while True:
            with suppress(RouterError):  # the broker is unavailable: its own check says so
                await self.look(MAX_AGE_S)
            await asyncio.sleep(spread(DEPTH_EVERY_S))

    async def look(self, max_age: float = 0.0) -> None:
        """Count new dead letters, and set the gauge. Raises BrokerUnavailable, BrokerRefused."""
        info = await self._infos.stream(self._stream, max_age) or {
            "created": "",
            "state": {"last_seq": 0, "messages": 0},
        }
        if info["created"] != self._since:
            self._since = info["created"]
            self._begin_anew()
        last, messages = info["state"]["last_seq"], info["state"]["messages"]
        await self._count_to(last)
        if self._until == last and self._counting.total() != messages:
            self._show()
            self._begin_anew()
            await self._count_to(last)
        if self._until >= last:
            self._show()

    def _begin_anew(self) -> None:
        self._counting, self._until = Counter(), 0

    async def _count_to(self, last: int) -> None:
        """Count what is new; at most MOST of it."""
        if self._until >= last:
            return
        async with open_reader(
            self._jetstream, self._stream, self._until + 1, headers_only=True
        ) as reader:
            left = min(reader.total, MAX_READ)
            while left > 0 and (batch := await reader.read(min(READ_BATCH, left))):
                left -= len(batch)
                self._counting.update(map(self._kind_of, batch))
                self._until = batch[-1].sequence
        if reader.total <= MAX_READ:
            self._until = max(self._until, last)  # the last ones may be gone

    def _kind_of(self, stored: StoredMessage) -> SubjectAndReason:
        subject = self._labels[self._original_of(stored.subject)]
        if stored.subject in WORKERS_SUBJECTS:
            return subject, PROCESSING_ERROR
        reason = stored.headers.get("x-dlq-reason", "")
        return subject, reason if reason in _REASONS else UNREADABLE

    def _show(self) -> None:
        for kind in self.counts.keys() - self._counting.keys():
            self._gauge.set(0, *kind)
        for kind, count in self._counting.items():
            self._gauge.set(count, *kind)
        self.counts = dict(self._counting)


def _inverse(pattern: str) -> Callable[[str], str]:
    """A dead letter's subject -> the original's; one subject for all dead letters stays what it is,
    for heads do not say more.
    """
    before, placeholder, after = pattern.partition("{original_subject}")
    matches = re.compile(re.escape(before) + "(.+)" + re.escape(after)).fullmatch

    def original_of(subject: str) -> str:
        match = matches(subject) if placeholder else None
        return match[1] if match else subject

    return original_of
