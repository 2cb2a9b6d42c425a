"""Operators' writes of policies: by the store, and each with its audit event. Commands, console and
services write with it.
"""

from __future__ import annotations

from router.contracts.canary import CanaryPlan
from router.operate.audit import AuditTrail, OperatorWrite
from router.operate.audit.audit_event import Values
from router.policies.model.canaries import CanaryVerdict
from router.policies.store import PolicyStore, StoredPolicy
from router.policies.sync import PolicySyncStep, apply_step


class AuditedPolicies:
    """Raises what `PolicyStore` raises; a write that is refused leaves no event."""

    def __init__(self, store: PolicyStore, trail: AuditTrail) -> None:
        self.store = store
        self._trail = trail

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
        before = await self.store.find(tenant, policy)
        version = await self.store.put(tenant, policy, document, replaces=replaces, author=author)
        await self._record("policy put", (tenant, policy), before, version, note)
        return version

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
        before = await self.store.find(tenant, policy)
        version = await self.store.rollback(tenant, policy, to, author=author, replaces=replaces)
        await self._record(
            "policy rollback", (tenant, policy), before, version, note or f"to version {to}"
        )
        return version

    async def delete(self, tenant: str, policy: str, *, replaces: int | None = None) -> int:
        """Delete a policy and return the deleted version."""
        before = await self.store.find(tenant, policy)
        version = await self.store.delete(tenant, policy, replaces=replaces)
        await self._record("policy delete", (tenant, policy), before, None)
        return version

    async def start_canary(self, tenant: str, policy: str, plan: CanaryPlan, *, author: str) -> int:
        """Begin a canary and return the new version."""
        before = await self.store.find(tenant, policy)
        version = await self.store.start_canary(tenant, policy, plan, author=author)
        await self._record("policy canary start", (tenant, policy), before, version)
        return version

    async def abort_canary(self, tenant: str, policy: str, replaces: int, *, author: str) -> int:
        """End the canary of version `replaces` without its candidate and return the new version."""
        before = await self.store.find(tenant, policy)
        note = f"aborted by {author}"
        version = await self.store.end_canary(
            tenant, policy, replaces, CanaryVerdict.ROLL_BACK, note, author=author
        )
        await self._record("policy canary abort", (tenant, policy), before, version)
        return version

    async def apply_step(self, step: PolicySyncStep, author: str) -> None:
        """One step of a plan of `sync`."""
        tenant, policy = step.key
        before = await self.store.find(tenant, policy)
        version = await apply_step(self.store, step, author)
        await self._record(
            "policy sync", (tenant, policy), before, version if step.document is not None else None
        )

    async def _record(
        self,
        command: str,
        name: tuple[str, str],
        before: StoredPolicy | None,
        version: int | None,
        note: str | None = None,
    ) -> None:
        after: Values | None = None
        if version is not None:
            stored = await self.store.find(*name)
            # else another write came after it
            is_ours = stored is not None and stored.record.version == version
            after = _describe(stored) if is_ours else {"version": version}
        write = OperatorWrite(
            command=command,
            target="/".join(name),
            tenant_id=name[0],
            before=_describe(before),
            after=after,
            note=note,
        )
        await self._trail.record(write)


def _describe(policy: StoredPolicy | None) -> Values | None:
    return (
        {"version": policy.record.version, "hash": policy.record.hash}
        if policy is not None
        else None
    )
