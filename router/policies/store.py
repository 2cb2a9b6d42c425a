"""The bucket of policies: each is checked, more strictly than a router loads it, and versioned
before it is written.

    PolicyStore        the bucket; a router ends canaries with it, and reads with `policies.followed`
    AuditedPolicies    the same for commands, console and admin service: each write with its event

A tenant's policies are found only under its id.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import orjson
from msgspec import Struct
from msgspec.structs import replace

from router.contracts.canary import MAX_NOTE, CanaryPlan
from router.contracts.version_record import VersionRecord, read_record
from router.core import ids
from router.core.errors import Poison, RouterError
from router.delivery.kv.entries import BucketEntry
from router.delivery.kv.followed_bucket import SMALL
from router.delivery.kv.versioned_store import MAX_AUTHOR, VersionedStore
from router.operate.audit import AuditedStore
from router.policies.model import SHARED, ParsedPolicy, PolicyError, lint, load_policy
from router.policies.model.canaries import CanaryVerdict

# -- Checks a policy before it is written: its size, depth, ids, document and author.
#
# This is stricter than what a router loads: a policy that refuses every request may be in a bucket,
# but cannot be written through these checks.


LEGAL = "is not an id: 1..128 of A-Z a-z 0-9 _ . : - without . or _ in front"


def check_policy(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """Parse and lint a policy. Raises PolicyError with the path of each mistake, errors of lint
    included.
    """
    parsed = load_policy(data, tenant_id, policy_id)
    if mistakes := [
        (fault.path, fault.message) for fault in lint(parsed.policy) if fault.severity == "error"
    ]:
        raise PolicyError(mistakes)
    return parsed


async def check_policy_in_thread(data: bytes, tenant_id: str, policy_id: str) -> ParsedPolicy:
    """`check_policy`; a large document is checked in a thread, so that it does not block the event
    loop.
    """
    if len(data) <= SMALL:
        return check_policy(data, tenant_id, policy_id)
    return await asyncio.to_thread(check_policy, data, tenant_id, policy_id)


def check_ids(tenant_id: str, policy_id: str) -> None:
    """Raises PolicyError for an illegal id; `_shared` is a legal tenant here."""
    legal = {
        "tenant_id": tenant_id == SHARED or ids.is_scoped(tenant_id),
        "policy_id": ids.is_scoped(policy_id),
    }
    if mistakes := [(name, LEGAL) for name, is_legal in legal.items() if not is_legal]:
        raise PolicyError(mistakes)


def check_author(author: str) -> None:
    if not (0 < len(author) <= MAX_AUTHOR and author.isprintable()):
        raise PolicyError([("author", f"should be 1..{MAX_AUTHOR} printable characters")])


# -- The bucket of policies: each is checked and versioned before it is written.


CANARY_AUTHOR = "canary"  # of the version that follows from a verdict


class PolicyNotFound(RouterError):
    """No such policy, or no such version in the history."""

    code = "policy_not_found"


class StoredPolicy(Struct, frozen=True):
    """A policy in the bucket; its document is not parsed."""

    tenant_id: str
    policy_id: str
    record: VersionRecord


class PolicyStore(VersionedStore[StoredPolicy]):
    """A write may raise PolicyError before it writes. The name of a policy: its tenant (or
    `_shared`), its id.
    """

    kind, not_found = "policy", PolicyNotFound

    def read(self, entry: BucketEntry) -> StoredPolicy:
        return read_stored_policy(entry)

    def key(self, *name: str) -> str:
        """Raises PolicyError for a name that is no pair of ids."""
        check_ids(*name)
        return super().key(*name)

    async def put(
        self, tenant_id: str, policy_id: str, document: bytes, *, replaces: int | None, author: str
    ) -> int:
        """Write a policy (JSON) and return its version."""
        canonical = (await check_policy_in_thread(document, tenant_id, policy_id)).document
        check_author(author)
        return await self.write((tenant_id, policy_id), canonical, author=author, replaces=replaces)

    async def seed(
        self,
        tenant_id: str,
        policy_id: str,
        parsed: ParsedPolicy,
        *,
        replaces: VersionRecord | None,
        author: str,
    ) -> bool:
        """Write the first version (never after a deletion), or the one after `replaces`. Returns
        whether it was written.
        """
        return await self.write_first(
            (tenant_id, policy_id), parsed.document, author=author, replaces=replaces
        )

    async def list(self, tenant_id: str | None = None) -> Sequence[StoredPolicy]:
        """Every policy, or one tenant's own, in the order of their names."""
        chosen = [
            stored for stored in await super().list() if tenant_id in (None, stored.tenant_id)
        ]
        return sorted(chosen, key=lambda stored: (stored.tenant_id, stored.policy_id))

    async def rollback(
        self, tenant_id: str, policy_id: str, to: int, *, author: str, replaces: int | None = None
    ) -> int:
        """Write the document of version `to` again and return the new version."""
        former = await self.get(tenant_id, policy_id, version=to)
        return await self.put(
            tenant_id,
            policy_id,
            orjson.dumps(former.record.document),
            replaces=replaces,
            author=author,
        )

    async def start_canary(
        self, tenant_id: str, policy_id: str, plan: CanaryPlan, *, author: str
    ) -> int:
        """Begin a canary beside the version in force, as a new version. Raises PolicyError (it has
        one), PolicyNotFound, Conflict.
        """
        canonical = (
            await check_policy_in_thread(orjson.dumps(plan.document), tenant_id, policy_id)
        ).document
        check_author(author)
        record = (await self.get(tenant_id, policy_id)).record
        if record.canary is not None:
            told = (
                f"version {record.version} has one already: `router policy canary abort "
                f"{tenant_id} {policy_id}`"
            )
            raise PolicyError([("canary", told)])
        what = "shadow" if plan.is_shadow else f"canary of {plan.share:g} %"
        note = f"{what} began: {', '.join(map(str, plan.guards)) or 'no guards'}"
        return await self.write(
            (tenant_id, policy_id),
            record.document,
            author=author,
            replaces=record.version,
            note=note,
            canary=replace(plan, document=canonical),
        )

    async def end_canary(
        self,
        tenant_id: str,
        policy_id: str,
        version: int,
        verdict: CanaryVerdict,
        note: str,
        *,
        author: str = CANARY_AUTHOR,
    ) -> int:
        """Write what follows a canary, as a new version. Raises PolicyNotFound (it has none),
        Conflict (another version is in force).
        """
        record = (await self.get(tenant_id, policy_id, version=version)).record
        if record.canary is None:
            raise PolicyNotFound(f"version {version} of {tenant_id}/{policy_id} has no canary")
        document = record.canary.document if verdict is CanaryVerdict.PROMOTE else record.document
        told = f"{'shadow' if record.canary.is_shadow else 'canary'} {verdict.value}: {note}"[
            :MAX_NOTE
        ]
        return await self.write(
            (tenant_id, policy_id), document, author=author, replaces=version, note=told
        )


class AuditedPolicies(AuditedStore[PolicyStore, StoredPolicy]):
    """The writes of operators."""

    deletion = "policy delete"

    async def put(
        self,
        tenant: str,
        policy: str,
        document: bytes,
        *,
        replaces: int | None,
        author: str,
        note: str | None = None,
    ) -> int:
        """Write a policy (JSON) and return its version."""
        event = await self.open_event("policy put", (tenant, policy), note)
        version = await self.store.put(tenant, policy, document, replaces=replaces, author=author)
        return await self.close_event(event, (tenant, policy), version)

    async def rollback(
        self,
        tenant: str,
        policy: str,
        to: int,
        *,
        author: str,
        replaces: int | None = None,
        note: str | None = None,
    ) -> int:
        """Write the document of version `to` again and return the new version."""
        told = note or f"to version {to}"
        event = await self.open_event("policy rollback", (tenant, policy), told)
        version = await self.store.rollback(tenant, policy, to, author=author, replaces=replaces)
        return await self.close_event(event, (tenant, policy), version)

    async def start_canary(self, tenant: str, policy: str, plan: CanaryPlan, *, author: str) -> int:
        """Begin a canary and return the new version."""
        event = await self.open_event("policy canary start", (tenant, policy))
        version = await self.store.start_canary(tenant, policy, plan, author=author)
        return await self.close_event(event, (tenant, policy), version)

    async def abort_canary(self, tenant: str, policy: str, replaces: int, *, author: str) -> int:
        """End the canary of version `replaces` without its candidate and return the new version."""
        event = await self.open_event("policy canary abort", (tenant, policy))
        note = f"aborted by {author}"
        version = await self.store.end_canary(
            tenant, policy, replaces, CanaryVerdict.ROLL_BACK, note, author=author
        )
        return await self.close_event(event, (tenant, policy), version)


def read_stored_policy(entry: BucketEntry) -> StoredPolicy:
    """Raises Poison for a value or a key that is not a policy's."""
    parts = ids.parts_of(entry.key)
    if parts is None or len(parts) != 2:
        raise Poison("the key is no tenant and policy")
    return StoredPolicy(*parts, read_record(entry.value))
