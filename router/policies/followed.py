"""Keeps the policy table of this process equal to its bucket; a directory may seed the bucket.

`policies.seed` writes policies, and operators do through `policies.store`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import FollowedBucket
from router.delivery.kv.versioned_store import RECORD_BYTES
from router.delivery.wire.api import JetStream
from router.delivery.wire.shared_info import SharedInfo
from router.policies.model import Policy, PolicyTable, parse_record
from router.policies.model.parse import MAX_POLICY_BYTES, check_size
from router.policies.seed import seed
from router.policies.store import PolicyStore, read_stored_policy
from router.process.observability import events, logs

log = logs.logger(__name__)


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
