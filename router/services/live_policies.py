"""Keeps the policy table of this process equal to its bucket; a directory may seed the bucket.

    load  ── seed: what the bucket never had ── list ──> the table is complete before the first request
    run   ── every change ──> read, checked ──> a new table replaces the old one
             └ not a policy: the last good one of that key stays in force; a log line and readiness show it

`services.policy_seed` writes policies, and operators do through `services.policy_store`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from router.contracts.version_record import read_record
from router.core import ids
from router.core.masking import shorten
from router.delivery.api import JetStream
from router.delivery.buckets.documents import DocumentBucket
from router.delivery.buckets.entries import BucketEntry, DeletedKey
from router.delivery.buckets.mirror import BucketMirror
from router.operations.observability import ReadinessCheck, events, logs
from router.routing.policy import Policy, PolicyTable, parse_policy
from router.routing.policy.parse import MAX_POLICY_BYTES, check_size
from router.services.large_documents import SMALL, LargeDocuments
from router.services.policy_seed import seed
from router.services.policy_store import PolicyStore

log = logs.logger(__name__)

RECORD_BYTES = 4096  # the size that a record adds to its document
MAX_TOLD = 10  # policies that are not usable, in readiness
MAX_ERROR = 512  # characters of each


class _PolicyState(Struct, frozen=True):
    """The state of one key: its entry, and the policy in force, which is the last good one; None if there never was one."""

    entry: BucketEntry
    policy: Policy | None
    error: str | None


class LivePolicies:
    """Keeps a PolicyTable equal to a bucket."""

    def __init__(self, jetstream: JetStream, bucket: str, table: PolicyTable) -> None:
        self._documents = DocumentBucket(jetstream, bucket)
        self._mirror = BucketMirror(jetstream, bucket, self._on_change)
        self._table = table
        self._states: dict[str, _PolicyState] = {}
        self._large = LargeDocuments(_read, self._on_read)

    @property
    def check(self) -> ReadinessCheck:
        """Its line in /readyz. It names illegal policies, but they do not make the instance unready."""
        check = self._mirror.check
        broken = [f"{key}: {state.error}" for key, state in self._states.items() if state.error is not None]
        if not broken:
            return check
        more = f"; and {len(broken) - MAX_TOLD} more" if len(broken) > MAX_TOLD else ""
        return ReadinessCheck(check.ok, f"{check.detail}; not usable: {'; '.join(broken[:MAX_TOLD])}{more}")

    async def load(self, root: Path | None = None) -> None:
        """Load before the first request; `root`: the directory to seed from. Raises BrokerUnavailable."""
        if root is not None:
            await seed(PolicyStore(self._documents), root)
        await self._mirror.load()
        await self._large.read_all()
        if broken := [state for state in self._states.values() if state.policy is None]:
            for state in broken:
                await self._restore_last_good(state)
            self._install()

    async def run(self) -> None:
        """A child of the tree."""
        await self._large.run_with(self._mirror.run())

    def _on_change(self, entries: Mapping[str, BucketEntry]) -> None:
        """Read the changed entries; large ones are read in a thread, and the previous version serves meanwhile."""
        before, self._states = self._states, {}
        large: dict[str, BucketEntry] = {}
        for key, entry in entries.items():
            known = before.get(key)
            if known is not None and (known.entry == entry or len(entry.value) > SMALL):
                self._states[key] = known
            if known is None or known.entry != entry:
                if len(entry.value) > SMALL:
                    large[key] = entry
                else:
                    self._states[key] = self._read_small(entry, known)
        self._large.ask(large)
        self._install()

    def _on_read(self, entry: BucketEntry, found: Policy | Exception) -> None:
        self._states[entry.key] = self._build_state(entry, found, self._states.get(entry.key))
        self._install()

    def _install(self) -> None:
        policies = [state.policy for state in self._states.values() if state.policy is not None]
        self._table.replace({(policy.tenant_id, policy.policy_id): policy for policy in policies})
        log.info(events.POLICY_LOADED, policies=len(policies))

    def _read_small(self, entry: BucketEntry, before: _PolicyState | None) -> _PolicyState:
        try:
            return _PolicyState(entry, _read(entry), None)
        except Exception as exc:  # an error in one document must not stop the others
            return self._build_state(entry, exc, before)

    def _build_state(self, entry: BucketEntry, found: Policy | Exception, before: _PolicyState | None) -> _PolicyState:
        if not isinstance(found, Exception):
            return _PolicyState(entry, found, None)
        log.error(events.POLICY_BROKEN, path=entry.key, error=str(found), in_force="the last good version, if there was one")
        return _PolicyState(entry, before.policy if before is not None else None, shorten(str(found), MAX_ERROR))

    async def _restore_last_good(self, state: _PolicyState) -> None:
        """Take the last good version from the history, which instances that started earlier still use."""
        for entry in reversed(await self._documents.history(state.entry.key)):
            if isinstance(entry, DeletedKey):
                return
            with contextlib.suppress(Exception):
                self._states[entry.key] = replace(state, policy=await asyncio.to_thread(_read, entry))
                return


def _read(entry: BucketEntry) -> Policy:
    """Raises Poison or PolicyError for a value that is no policy."""
    parts = ids.parts_of(entry.key)
    tenant_id, policy_id = parts if parts is not None and len(parts) == 2 else ("", entry.key)
    check_size(entry.value, MAX_POLICY_BYTES + RECORD_BYTES)  # before a byte of it is read
    record = read_record(entry.value)
    return parse_policy(record.document, tenant_id, policy_id, record.version).policy
