"""Shares what each instance has learned of the tokens of texts, so that one that has just begun
estimates as the others do.

    a bill begins ── want(tenant) ──> follow (a child): the tenant's document is read, once in REFRESH_S
    a whole answer is told ── changed ──> write (a child): what is unshared is added to the document, every SHARE_S

A document is a tenant's, and each write names the revision that it replaces. Where that is another
one by now, or no answer comes, what is unshared waits for the next round. It may be added twice
then, which a ratio does not feel; its room, which is worth money, is never given twice. While the
bucket is unavailable each instance estimates by what it knows (docs/reference/prices.md#shared).
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress

import msgspec
from msgspec import structs

from router.budgets.model.prices import LearnedRatios, RatioSums, TokenRatio, TokenRatios
from router.budgets.model.prices.ratio_sums import (
    KINDS,
    MAX_SHARED,
    RatioRecord,
    RatiosRecord,
    SharedRatioRecord,
    ratios_key,
    read_ratios_record,
)
from router.contracts.stored_record import record_bytes
from router.core.bounded_cache import BoundedCache
from router.core.clock import Clock, steady
from router.core.errors import Conflict, Poison, RouterError
from router.delivery.kv.documents import DocumentBucket
from router.delivery.kv.entries import BucketEntry
from router.delivery.wire.api import JetStream
from router.process.observability import LogRateLimit, events, logs

log = logs.logger(__name__)

SHARE_S = 2.0
REFRESH_S = 60.0  # what others learn meanwhile
RETRY_S = 1.0  # after a read that failed
LAST_WRITE_S = 2.0  # when the router stops
TENANTS_AT_ONCE = 64  # documents in one round; more tenants wait for the next
MAX_WANTED = 1024  # tenants that wait for their document, or whose document is known to be fresh
_KINDS = dict(KINDS)

Pair = tuple[str, str]  # a provider and a model
Unshared = dict[Pair, tuple[RatioSums | None, RatioSums | None]]  # of input and output


class SharedRatios:
    """`follow` and `write` are children of the tree."""

    def __init__(
        self, jetstream: JetStream, bucket: str, ratios: LearnedRatios, now: Clock = steady
    ) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._ratios = ratios
        self._now = now
        self._fresh: BoundedCache[str, bool] = BoundedCache(MAX_WANTED)
        self._wanted: dict[str, None] = {}
        self._is_wanted = asyncio.Event()
        self._lines = LogRateLimit(every_s=60.0)

    def want(self, tenant_id: str) -> None:
        """This tenant's texts are estimated soon. Called for each invocation."""
        if self._fresh.get(tenant_id, self._now()) is None and len(self._wanted) < MAX_WANTED:
            self._wanted[tenant_id] = None
            self._is_wanted.set()

    async def follow(self) -> None:
        """A child of the tree: read what is wanted until cancelled."""
        while True:
            await self._is_wanted.wait()
            self._is_wanted.clear()
            while self._wanted:
                tenant_id = next(iter(self._wanted))
                del self._wanted[tenant_id]
                await self._read_wanted(tenant_id)

    async def write(self) -> None:
        """A child of the tree: share what was learned until cancelled, and then the rest."""
        try:
            while True:
                await asyncio.sleep(SHARE_S)
                await self._write_changed()
        finally:
            with suppress(TimeoutError):
                async with asyncio.timeout(LAST_WRITE_S):
                    while self._ratios.changed and await self._write_changed():
                        pass

    async def _read_wanted(self, tenant_id: str) -> None:
        self._mark_fresh(tenant_id)
        try:
            _, record = await self._read(tenant_id)
        except RouterError as exc:
            self._fresh.put(tenant_id, True, self._now() + RETRY_S, self._now(), owner=tenant_id)
            self._tell(tenant_id, exc)
            return
        if record is not None:
            self._install(record)

    async def _read(self, tenant_id: str) -> tuple[int | None, RatiosRecord | None]:
        """The revision and the document. Raises BrokerUnavailable. One that cannot be read is told,
        and counts for nothing.
        """
        entry = await self._documents.get(ratios_key(tenant_id))
        if entry is None:
            return None, None
        return entry.revision, self._read_entry(entry)

    def _read_entry(self, entry: BucketEntry) -> RatiosRecord | None:
        try:
            record = read_ratios_record(entry.key, entry.value)
            if record.kinds != _KINDS:
                raise Poison("its kinds of characters have other weights than this version's")
        except Poison as exc:
            if self._lines.allow("read"):
                log.error(events.RATIOS_UNREADABLE, key=entry.key, error=str(exc))
            return None
        return record

    async def _write_changed(self) -> bool:
        """Whether something was stored, so that another round may help."""
        changed = list(self._ratios.changed)[:TENANTS_AT_ONCE]
        is_stored = False
        for tenant_id, ratios_by_pair in self._ratios.list_of(changed).items():
            try:
                await self._write_tenant(tenant_id, ratios_by_pair)
                is_stored = True
            except Conflict:
                is_stored = True  # by another instance
            except RouterError as exc:
                self._tell(tenant_id, exc)
        return is_stored

    async def _write_tenant(
        self, tenant_id: str, ratios_by_pair: Mapping[Pair, TokenRatios]
    ) -> None:
        """Add what is unshared to the tenant's document. Conflict, BrokerUnavailable, StorageFull,
        Poison (too large).
        """
        self._ratios.changed.pop(tenant_id, None)
        unshared = _take_unshared(ratios_by_pair)
        if not unshared:
            return
        try:
            revision, record = await self._read(tenant_id)
            record = _add_up(tenant_id, record, unshared)
            await self._documents.put(
                ratios_key(tenant_id), record_bytes(record), revision=revision
            )
        except BaseException as exc:  # a cancellation as well
            _give_back(ratios_by_pair, unshared, may_be_stored=not isinstance(exc, Conflict))
            self._ratios.mark_changed(tenant_id)
            raise
        self._mark_fresh(tenant_id)
        self._install(record)

    def _install(self, record: RatiosRecord) -> None:
        for ratio in record.ratios:
            ratios = self._ratios.open(record.tenant_id, ratio.provider_id, ratio.model)
            ratios.input.replace(_to_sums(ratio.input))
            ratios.output.replace(_to_sums(ratio.output))

    def _mark_fresh(self, tenant_id: str) -> None:
        now = self._now()
        self._fresh.put(tenant_id, True, now + REFRESH_S, now, owner=tenant_id)

    def _tell(self, tenant_id: str, cause: RouterError) -> None:
        if self._lines.allow("share"):
            log.warning(events.RATIOS_NOT_SHARED, tenant_id=tenant_id, cause=str(cause))


def _take_unshared(ratios_by_pair: Mapping[Pair, TokenRatios]) -> Unshared:
    """Of each pair that has something."""
    taken = {
        pair: (ratios.input.take_unshared(), ratios.output.take_unshared())
        for pair, ratios in ratios_by_pair.items()
    }
    return {pair: both for pair, both in taken.items() if both != (None, None)}


def _give_back(
    ratios_by_pair: Mapping[Pair, TokenRatios], unshared: Unshared, *, may_be_stored: bool
) -> None:
    for pair, sums in unshared.items():
        ratios = ratios_by_pair[pair]
        for ratio, ratio_sums in zip((ratios.input, ratios.output), sums, strict=True):
            if ratio_sums is not None:
                _give_back_one(ratio, ratio_sums, may_be_stored=may_be_stored)


def _give_back_one(ratio: TokenRatio, sums: RatioSums, *, may_be_stored: bool) -> None:
    if may_be_stored:
        sums.room = min(0.0, sums.room)
    ratio.give_back(sums)


def _add_up(tenant_id: str, record: RatiosRecord | None, unshared: Unshared) -> RatiosRecord:
    """The document with what is unshared; the pairs that were taught just now stand last."""
    by_pair = (
        {(ratio.provider_id, ratio.model): ratio for ratio in record.ratios}
        if record is not None
        else {}
    )
    for pair, sums in unshared.items():
        before = by_pair.pop(pair, None)
        old = (before.input, before.output) if before is not None else (None, None)
        parts = [_add(shared, own) for shared, own in zip(old, sums, strict=True)]
        by_pair[pair] = SharedRatioRecord(
            provider_id=pair[0], model=pair[1], input=parts[0], output=parts[1]
        )
    return RatiosRecord(
        tenant_id=tenant_id, kinds=_KINDS, ratios=list(by_pair.values())[-MAX_SHARED:]
    )


def _add(shared: RatioRecord | None, own: RatioSums | None) -> RatioRecord:
    sums = _to_sums(shared) if shared is not None else RatioSums()
    if own is not None:
        sums.add(own)
    return msgspec.convert(structs.asdict(sums), RatioRecord)


def _to_sums(record: RatioRecord) -> RatioSums:
    """Sums of their own: they go on growing."""
    parts = structs.asdict(record)
    return RatioSums(**{**parts, "products": list(record.products), "sums": list(record.sums)})
