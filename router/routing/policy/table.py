"""The current policies: one table, replaced as a whole, so that a request sees the old set or the new one, never a mixture."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from router.routing.policy.policy import SHARED, Policy

Key = tuple[str, str]  # tenant (or `_shared`), policy


class PolicyTable:
    """A `PolicyFinder` in memory."""

    def __init__(self, policies: Mapping[Key, Policy] | None = None) -> None:
        self.replace(policies or {})

    def find(self, tenant_id: str, policy_id: str) -> Policy | None:
        """(tenant, id), else (`_shared`, id), else None."""
        table = self._table
        return table.get((tenant_id, policy_id)) or table.get((SHARED, policy_id))

    def has_tenant(self, tenant_id: str) -> bool:
        """Whether the tenant has at least one policy of its own."""
        return tenant_id in self._tenants

    def replace(self, policies: Mapping[Key, Policy]) -> None:
        self._table = dict(policies)
        self._all = MappingProxyType(self._table)
        self._tenants = frozenset(tenant_id for tenant_id, _ in self._table)

    def get_all(self) -> Mapping[Key, Policy]:
        """The whole table: the same object until the next `replace`, so that a caller can tell by identity whether it changed."""
        return self._all
