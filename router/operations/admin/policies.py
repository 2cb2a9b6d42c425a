"""Policies over NATS: list, get, put, delete. A write names the version that it replaces, or is a conflict.

Rule: docs/operators.md#admin-services.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer, Service

AUTHOR = "admin service"  # of a request that names none


class PolicyRepository(Protocol):
    """Each raises ServiceError (invalid_request, policy_not_found, conflict) or BrokerUnavailable."""

    async def list(self, tenant_id: str | None) -> list[Answer]:
        """`{tenant_id, policy_id, version, author, time, hash}` of each."""

    async def get(self, tenant_id: str, policy_id: str, version: int | None) -> Answer:
        """The same, and the document as `policy`."""

    async def put(self, tenant_id: str, policy_id: str, policy: Mapping[str, object], replaces: int | None, author: str) -> int:
        """The new version."""

    async def delete(self, tenant_id: str, policy_id: str, replaces: int | None) -> int:
        """The deleted version."""


class PolicyServices:
    """Accepts `_shared` as a tenant; elsewhere a tenant reads its own policies only."""

    def __init__(self, book: PolicyRepository) -> None:
        self._book = book

    def list_services(self) -> tuple[Service, ...]:
        one = "{tenant_id, policy_id, version, author, time, hash}"
        put = "{tenant_id, policy_id, policy, replaces?, author?}"
        done = "{ok, tenant_id, policy_id, version}"
        return (
            Service("list_policies", "Policies, of all tenants or of one", "{tenant_id?}", f"{{ok, policies[{one}]}}", self.list),
            Service("get_policy", "A policy as it stands", "{tenant_id, policy_id, version?}", f"{{ok, …{one}, policy}}", self.get),
            Service("put_policy", "Write a policy; `replaces` names the version it replaces, absent = there is none", put, done, self.put),
            Service("delete_policy", "Delete a policy; its history stays", "{tenant_id, policy_id, replaces?}", done, self.delete),
        )

    async def list(self, asked: RequestFields) -> Answer:
        return {"policies": await self._book.list(asked.optional_policy_tenant())}

    async def get(self, asked: RequestFields) -> Answer:
        return await self._book.get(asked.policy_tenant(), asked.policy_id(), asked.integer("version"))

    async def put(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id, policy = asked.policy_tenant(), asked.policy_id(), asked.json_object("policy")
        version = await self._book.put(tenant_id, policy_id, policy, asked.replaced_version(), asked.text("author") or AUTHOR)
        return {"tenant_id": tenant_id, "policy_id": policy_id, "version": version}

    async def delete(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id = asked.policy_tenant(), asked.policy_id()
        version = await self._book.delete(tenant_id, policy_id, asked.replaced_version())
        return {"tenant_id": tenant_id, "policy_id": policy_id, "version": version}
