"""The policies of a running router: a shelf kept equal to their bucket, which a directory may seed.

    begin ── seed: what the bucket never had ── list ──> the shelf is filled before the first request is taken
    run   ── every change, within moments ──> read, checked ──> the shelf, swapped whole
             └ not a policy: the last good one of that key serves on; logged, and told in readiness

Who writes policies: `app.policy_seed`, and people through `app.policy_store`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from router import ids
from router.app.large_documents import SMALL, LargeDocuments
from router.app.policy_seed import seed
from router.app.policy_store import PolicyStore
from router.buckets.documents import DocumentBucket
from router.buckets.entries import BucketEntry, DeletedKey
from router.buckets.mirror import BucketMirror
from router.contracts.version_record import read_record
from router.delivery.api import JetStream
from router.masking import shorten
from router.observability import ReadinessCheck, events, logs
from router.policy import Policy, PolicyTable, parse_policy
from router.policy.parse import LARGEST, check_size

log = logs.logger(__name__)

RECORD_BYTES = 4096  # what a record adds to its document
MAX_TOLD = 10  # policies that are not usable, in readiness
MAX_ERROR = 512  # characters of each


class _Held(Struct, frozen=True):
    """What a key says, and which policy is in force for it: the last good one, None if there never was one."""

    entry: BucketEntry
    policy: Policy | None
    error: str | None


class LivePolicies:
    """Keeps a shelf equal to a bucket."""

    def __init__(self, jetstream: JetStream, bucket: str, shelf: PolicyTable) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._watched = BucketMirror(jetstream, bucket, self._changed)
        self._shelf = shelf
        self._held: dict[str, _Held] = {}
        self._large = LargeDocuments(_read, self._was_read)

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz. A stranger's mistake is told; it takes no instance out of service."""
        check = self._watched.check
        broken = [f"{key}: {held.error}" for key, held in self._held.items() if held.error is not None]
        if not broken:
            return check
        more = f"; and {len(broken) - MAX_TOLD} more" if len(broken) > MAX_TOLD else ""
        return ReadinessCheck(check.ok, f"{check.detail}; not usable: {'; '.join(broken[:MAX_TOLD])}{more}")

    async def begin(self, root: Path | None = None) -> None:
        """Before the first request; `root`: the directory to seed from. Raises BrokerUnavailable: no policies can be had."""
        if root is not None:
            await seed(PolicyStore(self._documents), root)
        await self._watched.load()
        await self._large.read_all()
        if broken := [held for held in self._held.values() if held.policy is None]:
            for held in broken:
                await self._recall(held)
            self._shelve()

    async def run(self) -> None:
        """A child of the tree."""
        await self._large.run_beside(self._watched.run())

    def _changed(self, entries: Mapping[str, BucketEntry]) -> None:
        """What was read already is not read again; what is large is read in a thread, and what stood there before serves meanwhile."""
        before, self._held = self._held, {}
        large: dict[str, BucketEntry] = {}
        for key, entry in entries.items():
            known = before.get(key)
            if known is not None and (known.entry == entry or len(entry.value) > SMALL):
                self._held[key] = known
            if known is None or known.entry != entry:
                if len(entry.value) > SMALL:
                    large[key] = entry
                else:
                    self._held[key] = self._hold(entry, known)
        self._large.ask(large)
        self._shelve()

    def _was_read(self, entry: BucketEntry, found: Policy | Exception) -> None:
        self._held[entry.key] = self._made(entry, found, self._held.get(entry.key))
        self._shelve()

    def _shelve(self) -> None:
        policies = [held.policy for held in self._held.values() if held.policy is not None]
        self._shelf.replace({(policy.tenant_id, policy.policy_id): policy for policy in policies})
        log.info(events.POLICY_LOADED, policies=len(policies))

    def _hold(self, entry: BucketEntry, before: _Held | None) -> _Held:
        try:
            return _Held(entry, _read(entry), None)
        except Exception as exc:  # whatever reading one document raises is that document's error, and no other's
            return self._made(entry, exc, before)

    def _made(self, entry: BucketEntry, found: Policy | Exception, before: _Held | None) -> _Held:
        if not isinstance(found, Exception):
            return _Held(entry, found, None)
        log.error(events.POLICY_BROKEN, path=entry.key, error=str(found), in_force="the last good version, if there was one")
        return _Held(entry, before.policy if before is not None else None, shorten(str(found), MAX_ERROR))

    async def _recall(self, held: _Held) -> None:
        """The last good one before a mistake, out of the history: what instances that were there before still serve."""
        for entry in reversed(await self._documents.history(held.entry.key)):
            if isinstance(entry, DeletedKey):
                return
            with contextlib.suppress(Exception):
                self._held[entry.key] = replace(held, policy=await asyncio.to_thread(_read, entry))
                return


def _read(entry: BucketEntry) -> Policy:
    """Raises Poison or PolicyError: a stranger wrote it."""
    parts = ids.parts_of(entry.key)
    tenant_id, policy_id = parts if parts is not None and len(parts) == 2 else ("", entry.key)
    check_size(entry.value, LARGEST + RECORD_BYTES)  # before a byte of it is read
    record = read_record(entry.value)
    return parse_policy(record.document, tenant_id, policy_id, record.version).policy
