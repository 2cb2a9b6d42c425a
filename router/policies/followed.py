"""Keeps the policy table of this process equal to its bucket; a directory may seed the bucket with
what it never had.

`policies.followed` writes policies, and operators do through `policies.store`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

from router.contracts.version_record import VersionRecord, document_hash
from router.core.errors import Conflict
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.kv.versioned_store import RECORD_BYTES
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.policies.model import ParsedPolicy, Policy, PolicyTable, lint, load_policy, parse_record
from router.policies.model.parse import MAX_POLICY_BYTES, check_size
from router.policies.store import PolicyStore, read_stored_policy
from router.policies.sync import Key, read_policies
from router.process.observability import events, logs

# -- A directory seeds the bucket of policies: only what the bucket never had. `router policy
# sync` makes them equal.
#
# Several instances may seed at once: each policy is written by one of them. A policy that an
# operator deleted is not written again. A policy that refuses every request is written too, with
# a warning: without it the shared policy of its name would apply, which may lack its validators.
#
# The samples of the package are written only to a bucket that holds no other policy. The first
# directory of a user replaces them: a sample that the directory does not hold is removed, and a log
# line names each.


log = logs.logger(__name__)

SEED, SAMPLES = "seed", "samples"  # the authors of seeded policies
# those that the demo and `router serve --embedded` use
SAMPLE_POLICIES = Path(__file__).parent / "sample_policies"


async def seed(store: PolicyStore, root: Path) -> None:
    """Seed the bucket from a directory; log an illegal file with its path and go on. Raises
    BrokerUnavailable.
    """
    files = await asyncio.to_thread(read_policies, root, load_policy)
    for mistake in files.mistakes:
        log.error(
            events.POLICY_BROKEN, path=mistake.path, where=mistake.where, error=mistake.message
        )
    author = SAMPLES if root == SAMPLE_POLICIES else SEED
    standing = {
        (stored.tenant_id, stored.policy_id): stored.record for stored in await store.list()
    }
    if author == SAMPLES and not all(record.author == SAMPLES for record in standing.values()):
        return
    if author == SEED:
        await _clear(
            store,
            {
                key: record
                for key, record in standing.items()
                if record.author == SAMPLES and key not in files.policies
            },
        )
    await asyncio.gather(
        *(
            _sow(store, key, parsed, standing.get(key), author)
            for key, parsed in files.policies.items()
        )
    )


async def has_only_samples(store: PolicyStore) -> bool:
    """Whether the bucket holds no policy but samples. Raises BrokerUnavailable."""
    return all(stored.record.author == SAMPLES for stored in await store.list())


async def _sow(
    store: PolicyStore, key: Key, parsed: ParsedPolicy, record: VersionRecord | None, author: str
) -> None:
    if record is not None and (record.author != SAMPLES or author == SAMPLES):
        if record.hash != document_hash(parsed.document):
            log.info(
                events.POLICY_NOT_SEEDED,
                tenant=key[0],
                policy=key[1],
                version=record.version,
                by=record.author,
            )
        return
    if await store.seed(*key, parsed, replaces=record, author=author):
        if record is not None:
            log.info(
                events.SAMPLE_REPLACED, tenant=key[0], policy=key[1], version=record.version + 1
            )
        for warning in (
            *parsed.warnings,
            *(fault for fault in lint(parsed.policy) if fault.severity == "error"),
        ):
            log.warning(
                events.POLICY_WARNING,
                tenant=key[0],
                policy=key[1],
                path=warning.path,
                warning=warning.message,
            )


async def _clear(store: PolicyStore, unwanted: dict[Key, VersionRecord]) -> None:
    for key, record in unwanted.items():
        try:
            await store.delete(*key, replaces=record.version)
            log.info(events.SAMPLE_REMOVED, tenant=key[0], policy=key[1], version=record.version)
        except Conflict:
            continue  # a user has changed the sample since


# -- Keeps the policy table of this process equal to its bucket; a directory may seed the bucket.


class FollowedPolicies(FollowedBucket[Policy]):
    """Keeps a PolicyTable equal to a bucket."""

    def __init__(
        self, jetstream: JetStream, bucket: str, table: PolicyTable, infos: SharedInfo | None = None
    ) -> None:
        super().__init__(jetstream, bucket, events.POLICY_BROKEN, infos)
        self._table = table
        self._root: Path | None = None

    async def load(self, root: Path | None = None) -> None:
        """Load before the first request; `root`: the directory to seed from. Raises
        BrokerUnavailable.
        """
        self._root = root
        await super().load()

    async def seed(self) -> None:
        """From the directory of the start, if there was one."""
        if self._root is not None:
            await seed(PolicyStore(self.documents), self._root)

    def read(self, entry: BucketEntry) -> Policy:
        """Raises Poison or PolicyError for a value that is no policy."""
        # before a byte of it is read; a canary is a second document
        check_size(entry.value, 2 * MAX_POLICY_BYTES + RECORD_BYTES)
        stored = read_stored_policy(entry)
        return parse_record(stored.record, stored.tenant_id, stored.policy_id)

    def install(self, values: Sequence[Policy]) -> None:
        self._table.replace({(policy.tenant_id, policy.policy_id): policy for policy in values})
        log.info(events.POLICY_LOADED, policies=len(values))
