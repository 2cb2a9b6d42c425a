"""The stores behind the admin services: their errors become error responses that say what to correct."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import orjson

from router.contracts.version_record import VersionRecord
from router.core.errors import Conflict, Poison
from router.operations.admin import ServiceError
from router.operations.admin.service import Answer
from router.operations.admin.service_error import CONFLICT, EXTENSION_NOT_FOUND, INVALID_REQUEST, POLICY_NOT_FOUND
from router.routing.policy.fields import DocumentError
from router.services.extension_store import ExtensionNotFound, ExtensionStore
from router.services.policy_store import PolicyNotFound, PolicyStore


class AdminPolicies:
    """`operations.admin.policies.PolicyRepository` over the bucket."""

    def __init__(self, store: PolicyStore) -> None:
        self._store = store

    async def list(self, tenant_id: str | None) -> list[Answer]:
        return [_policy(one.tenant_id, one.policy_id, one.record) for one in await self._store.list(tenant_id)]

    async def get(self, tenant_id: str, policy_id: str, version: int | None) -> Answer:
        with translate_errors():
            record = (await self._store.get(tenant_id, policy_id, version=version)).record
        return {**_policy(tenant_id, policy_id, record), "policy": record.document}

    async def put(self, tenant_id: str, policy_id: str, policy: Mapping[str, object], replaces: int | None, author: str) -> int:
        with translate_errors():
            return await self._store.put(tenant_id, policy_id, orjson.dumps(policy), replaces=replaces or 0, author=author)

    async def delete(self, tenant_id: str, policy_id: str, replaces: int | None) -> int:
        with translate_errors():
            return await self._store.delete(tenant_id, policy_id, replaces=replaces)


class AdminExtensions:
    """`operations.admin.extensions.ExtensionRepository` over the bucket."""

    def __init__(self, store: ExtensionStore) -> None:
        self._store = store

    async def list(self) -> list[Answer]:
        return [{"id": one.entry.id, **_facts(one.record), "entry": one.record.document} for one in await self._store.list()]

    async def put(self, entry: Mapping[str, object], replaces: int | None, author: str) -> Answer:
        with translate_errors():
            written = await self._store.put(entry, author=author, replaces=replaces)
        return {"id": written.extension_id, "version": written.version, "is_new": written.is_new}

    async def delete(self, extension_id: str, replaces: int | None) -> int:
        with translate_errors():
            return await self._store.delete(extension_id, replaces=replaces)


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


def _policy(tenant_id: str, policy_id: str, record: VersionRecord) -> dict[str, object]:
    return {"tenant_id": tenant_id, "policy_id": policy_id, **_facts(record)}


def _facts(record: VersionRecord) -> dict[str, object]:
    return {"version": record.version, "author": record.author, "time": record.time, "hash": record.hash}
