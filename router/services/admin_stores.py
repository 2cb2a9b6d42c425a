"""The operators' services for policies and extensions: list, get, put, delete over the stores.

A write names the version that it replaces, or is a conflict. Errors of a store become error responses that say what to correct.
Rule: docs/reference/operators.md#admin-services.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import orjson

from router.contracts.version_record import VersionRecord
from router.core.errors import Conflict, Poison
from router.operations.admin import ServiceError
from router.operations.admin.request_fields import RequestFields
from router.operations.admin.service import Answer, Service
from router.operations.admin.service_error import CONFLICT, EXTENSION_NOT_FOUND, INVALID_REQUEST, POLICY_NOT_FOUND
from router.routing.policy.fields import DocumentError
from router.services.extension_store import ExtensionNotFound, ExtensionStore
from router.services.policy_store import PolicyNotFound, PolicyStore, StoredPolicy

ADMIN_AUTHOR = "admin service"  # of a request that names none
NOT_IN_ENTRY = ("replaces", "author")  # fields of a request that are not part of the registry entry


class PolicyServices:
    """Accepts `_shared` as a tenant; elsewhere a tenant reads its own policies only."""

    def __init__(self, store: PolicyStore) -> None:
        self._store = store

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
        return {"policies": [_policy_fields(one) for one in await self._store.list(asked.optional_policy_tenant())]}

    async def get(self, asked: RequestFields) -> Answer:
        with translate_errors():
            found = await self._store.get(asked.policy_tenant(), asked.policy_id(), version=asked.integer("version"))
        return {**_policy_fields(found), "policy": found.record.document}

    async def put(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id, document = asked.policy_tenant(), asked.policy_id(), orjson.dumps(asked.json_object("policy"))
        replaces, author = asked.replaced_version() or 0, asked.text("author") or ADMIN_AUTHOR
        with translate_errors():
            version = await self._store.put(tenant_id, policy_id, document, replaces=replaces, author=author)
        return {"tenant_id": tenant_id, "policy_id": policy_id, "version": version}

    async def delete(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id = asked.policy_tenant(), asked.policy_id()
        with translate_errors():
            version = await self._store.delete(tenant_id, policy_id, replaces=asked.replaced_version())
        return {"tenant_id": tenant_id, "policy_id": policy_id, "version": version}


class ExtensionServices:
    """What `router extension` does, for a NATS client."""

    def __init__(self, store: ExtensionStore) -> None:
        self._store = store

    def list_services(self) -> tuple[Service, ...]:
        listed = "{ok, extensions[{id, version, author, time, hash, entry}]}"
        put = "a registry entry {id, type, subject, …}; beside it replaces? (0: only if there is none), author?"
        return (
            Service("list_extensions", "Every registered extension", "{}", listed, self.list),
            Service("put_extension", "Register an extension, or register it anew", put, "{ok, id, version, is_new}", self.put),
            Service("delete_extension", "Remove an extension", "{id, replaces?}", "{ok, id, version}", self.delete),
        )

    async def list(self, asked: RequestFields) -> Answer:
        found = await self._store.list()
        return {"extensions": [{"id": one.entry.id, **_record_fields(one.record), "entry": one.record.document} for one in found]}

    async def put(self, asked: RequestFields) -> Answer:
        """Without `replaces` any version is replaced, so that a service can register itself again."""
        entry, replaces, author = asked.exclude(*NOT_IN_ENTRY), asked.replaced_version(), asked.text("author") or ADMIN_AUTHOR
        with translate_errors():
            written = await self._store.put(entry, author=author, replaces=replaces)
        return {"id": written.extension_id, "version": written.version, "is_new": written.is_new}

    async def delete(self, asked: RequestFields) -> Answer:
        extension_id = asked.extension_id()
        with translate_errors():
            return {"id": extension_id, "version": await self._store.delete(extension_id, replaces=asked.replaced_version())}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn errors of a store into ServiceError: mistakes with their paths, a conflict with the version that is stored now."""
    try:
        yield
    except DocumentError as exc:
        errors = [{"path": path, "message": message} for path, message in exc.errors]
        raise ServiceError(INVALID_REQUEST, str(exc), {"field": exc.errors[0][0], "errors": errors}) from exc
    except PolicyNotFound as exc:
        raise ServiceError(POLICY_NOT_FOUND, str(exc)) from exc
    except ExtensionNotFound as exc:
        raise ServiceError(EXTENSION_NOT_FOUND, str(exc)) from exc
    except Conflict as exc:
        raise ServiceError(CONFLICT, str(exc), {"version": exc.version} if exc.version is not None else None) from exc
    except Poison as exc:
        raise ServiceError(INVALID_REQUEST, str(exc)) from exc


def _policy_fields(one: StoredPolicy) -> dict[str, object]:
    return {"tenant_id": one.tenant_id, "policy_id": one.policy_id, **_record_fields(one.record)}


def _record_fields(record: VersionRecord) -> dict[str, object]:
    return {"version": record.version, "author": record.author, "time": record.time, "hash": record.hash}
