"""Ask a stream's leader whether a record is absent, where a direct get found none.

Any server that holds a copy answers a direct get, and one that lags does not have the newest records yet: its "none" is no proof.
The leader's is. A stream with one copy has no other to answer for it, so the leader is asked only where there are several:

    none found ──> one copy, no mirror ──> None
               └─> copies ──> STREAM.MSG.GET, which only the leader answers ──> the record, or None

Source: https://github.com/nats-io/nats-architecture-and-design/blob/main/adr/ADR-31.md
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from router.core.deferred import Deferred
from router.core.errors import BrokerRefused, BrokerUnavailable
from router.delivery.wire.api import JetStream

LOOK_S = 30.0  # an operator may add copies to a stream at any time
MOST_AT_ONCE = 64  # reads that the leader is asked for at once; a flood of unknown keys waits here
DELETE_OPERATIONS = frozenset({"DEL", "PURGE"})  # `KV-Operation` of an entry that says there is none

Found = Deferred[bytes | None]


class LeaderReads:
    """Of one bucket. It learns by itself how many copies the bucket has."""

    def __init__(self, jetstream: JetStream, bucket: str) -> None:
        self._jetstream = jetstream
        self._stream = f"KV_{bucket}"
        self._slots = asyncio.Semaphore(MOST_AT_ONCE)
        self._tasks: set[asyncio.Task[None]] = set()
        self._has_copies: bool | None = None  # not known yet
        self._unconfirmed: list[Mapping[str, Sequence[Found]]] = []  # until it is
        self._looked_at = -LOOK_S

    def confirm_absent(self, missing: Mapping[str, Sequence[Found]]) -> None:
        """Resolve what waits for these subjects: with None, with the record that only the leader has yet, or with BrokerUnavailable."""
        now = asyncio.get_running_loop().time()
        if now - self._looked_at >= LOOK_S:
            self._looked_at = now
            self._start(self._count_copies())
        if self._has_copies is None:
            self._unconfirmed.append(missing)
        else:
            self._confirm(missing)

    def _confirm(self, missing: Mapping[str, Sequence[Found]]) -> None:
        for subject, waiting in missing.items():
            if self._has_copies:
                self._start(self._read(subject, waiting))
            else:
                resolve_all(waiting, None)

    async def _count_copies(self) -> None:
        with contextlib.suppress(BrokerUnavailable, BrokerRefused):  # then what was known holds, and if nothing was, the leader is asked
            if (info := await self._jetstream.stream(self._stream)) is not None:
                self._has_copies = info["config"].get("num_replicas", 1) > 1 or bool(info.get("alternates"))  # the second: it has mirrors
        if self._has_copies is None:
            self._has_copies = True
        unconfirmed, self._unconfirmed = self._unconfirmed, []
        for missing in unconfirmed:
            self._confirm(missing)

    async def _read(self, subject: str, waiting: Sequence[Found]) -> None:
        async with self._slots:
            try:
                stored = await self._jetstream.get(self._stream, {"last_by_subj": subject})
            except (BrokerUnavailable, BrokerRefused) as exc:
                resolve_all(waiting, BrokerUnavailable(f"the leader of {self._stream} cannot be read: {exc}"))
            else:
                resolve_all(
                    waiting, stored.data if stored is not None and stored.headers.get("KV-Operation") not in DELETE_OPERATIONS else None
                )

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def resolve_all(waiting: Sequence[Found], record: bytes | BrokerUnavailable | None) -> None:
    for found in waiting:
        found.resolve(record)
