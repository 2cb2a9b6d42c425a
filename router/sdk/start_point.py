"""Where the work of a new durable starts: what becomes of assignments that were stored before it
was made.

Workers that listen on the subject, beside the stream, leave their assignments in it. The first
worker on the stream would do them all again. So the worker that makes the durable notes in it how
far the stream reached:

    unanswered   of those, one whose result is stored is settled and not done again
    new          none of those is done
    all          nothing is noted: every one is done

The note is the durable's own metadata: other workers, and those after a crash, go by it too. A
durable that an operator made has none. Results are read once for each run of a worker that meets
such an assignment. One that is still at work elsewhere has no result yet, and is done again: where
such workers go on beside this one, start with `new`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Literal, get_args

from router.contracts import headers as contract
from router.contracts.assignment import assignment_id_of
from router.contracts.malformed import Malformed
from router.contracts.result import RESULT
from router.contracts.worker import read_body
from router.core.errors import BrokerUnavailable, RouterError
from router.core.ids import is_opaque, is_scoped
from router.core.message import Message
from router.delivery.consume.stream_reader import open_reader
from router.delivery.wire.api import JetStream, Json, StoredMessage
from router.process.observability import events, logs

log = logs.logger(__name__)

Start = Literal["unanswered", "new", "all"]
START_POINTS: tuple[str, ...] = get_args(Start)

HOW = "router-start"
UP_TO = "router-start-after"
MAX_READ = 200_000  # results, the newest: as many ids are remembered, some 20 MB
READ_BATCH = 1_000


class StartPoint:
    """The start of one durable, as one worker sees it. `is_before_start` is called for every
    assignment.
    """

    def __init__(self, jetstream: JetStream, stream: str, results: str, start: Start) -> None:
        self._jetstream = jetstream
        self._stream = stream
        self._results = results
        self._start = start
        self._how = ""
        self._up_to = 0
        self._answered: set[str] | None = None  # "tenant assignment"; no name holds a space
        self._reading = asyncio.Lock()

    async def note(self) -> Mapping[str, str]:
        """The metadata for a durable that is about to be made. Raises BrokerUnavailable."""
        info = await self._jetstream.stream(self._stream)
        last = info["state"]["last_seq"] if info is not None and info["state"]["messages"] else 0
        if (
            self._start == "all"
            or not last
            or (self._start == "unanswered" and not await self._may_read())
        ):
            return {}
        return {HOW: self._start, UP_TO: str(last)}

    async def read_note(self, durable: Json) -> None:
        """Read what the worker that made the durable noted."""
        metadata = durable["config"].get("metadata") or {}
        how, up_to = metadata.get(HOW, ""), metadata.get(UP_TO, "")
        sequence = int(up_to) if up_to.isascii() and up_to.isdecimal() and len(up_to) < 20 else 0
        if (how, sequence) != (self._how, self._up_to):
            self._how, self._up_to, self._answered = how, sequence, None

    def is_before_start(self, message: Message) -> bool:
        """Whether it was stored before the durable was made."""
        return message.sequence <= self._up_to

    async def is_over(self, tenant_id: str, assignment_id: str) -> bool:
        """Whether an assignment that was stored before need not be done.

        Raises BrokerUnavailable, also where the server refuses to show results: no assignment is
        done, or given up, until it does.
        """
        if self._how != "unanswered":
            return True
        async with self._reading:
            if self._answered is None:
                self._answered = await self._read_or_wait()
                log.info(
                    events.WORKER_STARTS,
                    stream=self._stream,
                    up_to=self._up_to,
                    answered=len(self._answered),
                )
        return (
            f"{tenant_id} {assignment_id}" in self._answered
            or f" {assignment_id}" in self._answered
        )

    async def _may_read(self) -> bool:
        """A worker that may make durables, and may not read results, does all that waits."""
        try:
            if (stream := await self._stream_of_results()) is not None:
                async with open_reader(self._jetstream, stream, subject=self._results):
                    pass
        except RouterError as exc:
            log.warning(
                events.WORKER_STARTS,
                stream=self._stream,
                start="all",
                cause=f"results cannot be read: {exc}",
            )
            return False
        return True

    async def _stream_of_results(self) -> str | None:
        names = (await self._jetstream.ask("STREAM.NAMES", {"subject": self._results})).get(
            "streams"
        ) or []
        return str(names[0]) if names else None

    async def _read_or_wait(self) -> set[str]:
        try:
            return await self._read()
        except BrokerUnavailable:
            raise
        except RouterError as exc:  # no attempt of the assignment's: its handler has not begun
            raise BrokerUnavailable(f"results cannot be read: {exc}") from exc

    async def _read(self) -> set[str]:
        stream = await self._stream_of_results()
        info = await self._jetstream.stream(stream) if stream is not None else None
        if stream is None or info is None:
            return set()
        answered: set[str] = set()
        start = max(info["state"]["first_seq"], info["state"]["last_seq"] - MAX_READ + 1)
        async with open_reader(self._jetstream, stream, start, subject=self._results) as reader:
            left = min(reader.total, MAX_READ)
            while left > 0 and (batch := await reader.read(min(READ_BATCH, left))):
                left -= len(batch)
                answered.update(_assignment_key(message) for message in batch)
        return answered


def _assignment_key(result: StoredMessage) -> str:
    """The answered assignment, behind the tenant that the result names; one that names another
    tenant answers nothing. Empty: none.
    """
    try:
        body = read_body(result.data, RESULT)
    except Malformed:
        return ""
    assignment_id, request_id = body.get("assignment_id"), body.get("request_id")
    tenant = contract.tenant_in(result.headers) or body.get("tenant_id") or ""
    if not isinstance(tenant, str) or (tenant and not is_scoped(tenant)):
        return ""
    if isinstance(assignment_id, str) and is_opaque(assignment_id):
        return f"{tenant} {assignment_id}"
    if tenant and isinstance(request_id, str) and is_opaque(request_id):
        return f"{tenant} {assignment_id_of(tenant, request_id)}"
    return ""
