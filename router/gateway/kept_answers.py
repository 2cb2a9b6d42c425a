"""The bucket of answers, which all gateways share: a request that has a name is asked once.

    begin ── create its record ──> this gateway asks            RunningRequest
                └ it is there ──> its answer, once there is one KeptAnswer
                                  it runs: wait, and look again until it has one
                                  it is gone: the first was refused; begin again
                                  nothing renews it: its gateway died; that is the answer

    RunningRequest    renewed every RENEW_S ── keep ──> the answer stands, whole or as a note
                                            └─ forget ──> nothing was asked: the record goes

No write is made without the revision that it replaces. Where a record cannot be created nothing is
asked. Where an answer cannot be kept its client has it all the same, and the same request gets an
error: it is never asked twice.
"""

from __future__ import annotations

import asyncio
import uuid
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from router.contracts.decision import DEADLINE_EXCEEDED, INVALID_REQUEST, OVERLOADED
from router.core import ids
from router.core.clock import Clock, steady
from router.core.errors import Conflict, RouterError, StorageFull, TooLargeToStore
from router.delivery.consume.shares import TENANT_HEADER, TenantShares
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.lease import LeaseWatch
from router.delivery.kv.record_creator import WriteOnceKv
from router.delivery.wire.api import JetStream
from router.gateway.model import kept_answer
from router.gateway.model.kept_answer import IDEMPOTENCY_KEY, KeptAnswer, KeptRecord
from router.gateway.model.refusal import ANSWERS_UNAVAILABLE, GatewayRefusal
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

RENEW_S = 3.0
DEAD_S = 15.0  # without a renewal
FIRST_LOOK_S, LAST_LOOK_S = 0.05, 0.5  # between two looks at a record that runs
KEEP_S = 5.0  # that a client waits for its answer to be kept
PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)  # before it is tried again
MAX_WAITING = 64  # requests of one tenant, in one gateway
AGAIN_MS = 1_000
T = TypeVar("T")


class AnswerBucket(WriteOnceKv):
    """Each write names its tenant: shares are counted by it."""

    async def _write(self, key: str, value: bytes, headers: dict[str, str], last: int) -> int:
        tenant_id, *_ = ids.parts_of(key) or ("",)
        return await super()._write(key, value, {**headers, TENANT_HEADER: tenant_id}, last)


class KeptAnswers:
    """For all requests of a gateway."""

    def __init__(
        self, jetstream: JetStream, bucket: str, shares: TenantShares, now: Clock = steady
    ) -> None:
        self._bucket = AnswerBucket(jetstream, bucket)
        self._shares = shares
        self._now = now
        self._waiting: Counter[str] = Counter()
        self._background: set[asyncio.Task[None]] = set()
        self._held: set[asyncio.Task[Any]] = set()
        self._lines = LogRateLimit(every_s=60.0)
        self._is_stopped = False

    async def begin(
        self, tenant_id: str, identity: str, record: KeptRecord, within_s: float
    ) -> RunningRequest | KeptAnswer:
        """Raises GatewayRefusal: nothing was asked for this request."""
        key, until = kept_answer.make_record_key(tenant_id, identity), self._now() + within_s
        while True:
            created = await self._create(tenant_id, key, record)
            if isinstance(created, int):
                return RunningRequest(self, tenant_id, key, record, created)
            answer = await self._wait(tenant_id, created, record.content, until)
            if answer is not None:
                return answer

    async def run(self) -> None:
        """A child of the tree: what goes on without a client ends with it."""
        self._is_stopped = False
        try:
            await asyncio.Event().wait()
        finally:
            self._is_stopped = True
            for task in (*self._held, *self._background):
                task.cancel()

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Work that goes on when its client has left."""
        task = asyncio.get_running_loop().create_task(work)
        if self._is_stopped:
            task.cancel()
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def hold(self, task: asyncio.Task[T], on_end: Callable[[], None]) -> None:
        """A task that no client may be waiting for any more."""

        def end(ended: asyncio.Task[T]) -> None:
            self._held.discard(ended)
            on_end()
            if not ended.cancelled():
                ended.exception()  # its client hears it, where it is still there

        self._held.add(task)
        task.add_done_callback(end)

    def has_room_for(self, tenant_id: str, answer: KeptAnswer) -> bool:
        return len(answer.body) <= kept_answer.MAX_KEPT_BYTES and not self._shares.is_over(
            tenant_id
        )

    async def write(self, tenant_id: str, key: str, value: bytes, revision: int) -> int:
        """The new revision. Raises RouterError."""
        written = await self._bucket.put(key, value, revision=revision)
        self._shares.add(tenant_id, len(value))
        return written

    async def find_revision(self, key: str, owner: str) -> int | None:
        """Of this owner's record; None: it has none any more. Raises RouterError."""
        entry = await self._bucket.get(key)
        is_own = entry is not None and kept_answer.read_record(entry.value).owner == owner
        return entry.revision if entry is not None and is_own else None

    async def delete(self, key: str, owner: str) -> None:
        """Its own record. It is tried for a while: a client waits for the same request."""
        for pause_s in (*PAUSES_S, 0.0):
            with suppress(RouterError):
                revision = await self.find_revision(key, owner)
                if revision is not None:
                    await self._bucket.delete(key, revision=revision)
                return
            await asyncio.sleep(pause_s)

    def tell_unkept(self, cause: Exception) -> None:
        if self._lines.allow("unkept"):
            log.warning(events.GATEWAY_ANSWER_NOT_KEPT, error=type(cause).__name__)

    # -- A record, or the one that is there.

    async def _create(self, tenant_id: str, key: str, record: KeptRecord) -> int | BucketEntry:
        creating = asyncio.ensure_future(self._try_create(tenant_id, key, record))
        try:
            return await asyncio.shield(creating)
        except RouterError as exc:
            # its publish ack may be lost: a record without a request looks like a crash
            self.spawn(self.delete(key, record.owner))
            text = f"The gateway cannot keep an answer, so it did not ask: {exc.code}"
            raise GatewayRefusal(ANSWERS_UNAVAILABLE, text, retry_after_ms=AGAIN_MS) from exc
        except asyncio.CancelledError:
            self.spawn(self._take_back(creating, key, record.owner))
            raise

    async def _try_create(self, tenant_id: str, key: str, record: KeptRecord) -> int | BucketEntry:
        if self._shares.is_nearly_full and self._shares.is_over(tenant_id):
            return await self._require(key)
        value = kept_answer.write_running(record, 0)
        created = await self._bucket.try_create(key, value)
        if isinstance(created, int):
            self._shares.add(tenant_id, len(value))
        return created

    async def _require(self, key: str) -> BucketEntry:
        """Of a tenant that may keep nothing more: an answer that is there is answered."""
        entry = await self._bucket.get(key)
        if entry is None:
            text = "This tenant keeps as many answers as it may"
            raise GatewayRefusal(OVERLOADED, text, retry_after_ms=AGAIN_MS)
        return entry

    async def _take_back(
        self, creating: asyncio.Future[int | BucketEntry], key: str, owner: str
    ) -> None:
        with suppress(RouterError, GatewayRefusal):
            await creating
        await self.delete(key, owner)

    # -- Waiting for another's answer.

    async def _wait(
        self, tenant_id: str, entry: BucketEntry, content: str, until: float
    ) -> KeptAnswer | None:
        """None: the record is gone. Raises GatewayRefusal."""
        if self._waiting[tenant_id] >= MAX_WAITING:
            text = "Too many requests of this tenant wait for the answer of another"
            raise GatewayRefusal(OVERLOADED, text, retry_after_ms=AGAIN_MS)
        self._waiting[tenant_id] += 1
        try:
            return await self._follow(tenant_id, entry, content, until)
        finally:
            self._waiting[tenant_id] -= 1
            if not self._waiting[tenant_id]:
                del self._waiting[tenant_id]

    async def _follow(
        self, tenant_id: str, entry: BucketEntry, content: str, until: float
    ) -> KeptAnswer | None:
        watch, pause_s, found = LeaseWatch(DEAD_S, self._now), FIRST_LOOK_S, entry
        while True:
            record = _read_same(found, content)
            if record.answer is not None:
                return record.answer
            watch.on_revision(found.revision)
            if watch.is_over and await self._end_dead(tenant_id, found, record):
                return kept_answer.keep_interruption(record.request_id)
            if self._now() >= until:
                text = "The first request of this key has no answer yet"
                raise GatewayRefusal(DEADLINE_EXCEEDED, text)
            await asyncio.sleep(pause_s)
            pause_s = min(pause_s * 1.5, LAST_LOOK_S)
            try:
                looked = await self._bucket.get(found.key)
            except RouterError:
                watch.on_unreadable()
                continue
            if looked is None:
                return None
            found = looked

    async def _end_dead(self, tenant_id: str, entry: BucketEntry, record: KeptRecord) -> bool:
        """Whether it is dead: a gateway that lives after all has written a newer revision. Where
        this cannot be stored, the next one finds the same.
        """
        value = kept_answer.write_answered(record, kept_answer.keep_interruption(record.request_id))
        try:
            await self.write(tenant_id, entry.key, value, entry.revision)
        except Conflict:
            return False
        except RouterError as exc:
            self.tell_unkept(exc)
        return True


def _read_same(entry: BucketEntry, content: str) -> KeptRecord:
    """Raises GatewayRefusal for another request of the same name."""
    try:
        record = kept_answer.read_record(entry.value)
    except RouterError as exc:
        raise GatewayRefusal(ANSWERS_UNAVAILABLE, "The kept answer cannot be read") from exc
    if record.content != content:
        text = "This key was used for another request: a new request needs a new key"
        raise GatewayRefusal(INVALID_REQUEST, text, param=IDEMPOTENCY_KEY)
    return record


class RunningRequest:
    """A request that this gateway asks. It ends with `keep`, or with `forget`."""

    def __init__(
        self, answers: KeptAnswers, tenant_id: str, key: str, record: KeptRecord, revision: int
    ) -> None:
        self._answers = answers
        self._tenant_id = tenant_id
        self._key = key
        self.record = record
        self._revision = revision
        self.is_over = False
        self._renewing = answers.spawn(self._renew())

    async def keep(self, answer: KeptAnswer) -> None:
        """Return once it stands there, or after KEEP_S; then it is tried further. Never raises."""
        await asyncio.wait({self.keep_later(answer)}, timeout=KEEP_S)

    def keep_later(self, answer: KeptAnswer) -> asyncio.Task[None]:
        self._end()
        return self._answers.spawn(self._keep(answer))

    def forget(self) -> None:
        self._end()
        self._answers.spawn(self._answers.delete(self._key, self.record.owner))

    def _end(self) -> None:
        self.is_over = True
        self._renewing.cancel()

    async def _keep(self, answer: KeptAnswer) -> None:
        if not self._answers.has_room_for(self._tenant_id, answer):
            answer = kept_answer.keep_note(answer)
        for pause_s in (*PAUSES_S, 0.0):
            try:
                await self._write_answer(answer)
            except RouterError as exc:
                self._answers.tell_unkept(exc)
            else:
                return
            await asyncio.sleep(pause_s)

    async def _write_answer(self, answer: KeptAnswer) -> None:
        """Where there is no room, the note that it was answered. Raises RouterError."""
        try:
            await self._write(kept_answer.write_answered(self.record, answer))
        except (StorageFull, TooLargeToStore) as exc:
            self._answers.tell_unkept(exc)
            await self._write(
                kept_answer.write_answered(self.record, kept_answer.keep_note(answer))
            )

    async def _renew(self) -> None:
        renewals = 0
        while True:
            await asyncio.sleep(RENEW_S)
            renewals += 1
            with suppress(RouterError):
                await self._write(kept_answer.write_running(self.record, renewals))

    async def _write(self, value: bytes) -> None:
        """Raises RouterError; Conflict: the record is not its own any more."""
        try:
            await self._replace(value)
        except Conflict:
            # an earlier write was stored and its publish ack lost, or this gateway was slow and
            # another one took it for dead
            revision = await self._answers.find_revision(self._key, self.record.owner)
            if revision is None:
                raise
            self._revision = revision
            await self._replace(value)

    async def _replace(self, value: bytes) -> None:
        self._revision = await self._answers.write(
            self._tenant_id, self._key, value, self._revision
        )


def make_running(content: str, request_id: str) -> KeptRecord:
    return KeptRecord(content=content, owner=uuid.uuid4().hex, request_id=request_id)
