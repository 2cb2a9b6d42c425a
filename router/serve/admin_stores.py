"""The operators' services for policies and extensions: list, get, put, delete over the stores.

A write names the version that it replaces, or is a conflict, and leaves an audit event; where that
cannot be stored, the answer says so by `audit_lost`, and the write stands. Errors of a store become
error responses that say what to correct. Rule: docs/reference/operators.md#admin-services.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

import orjson

from router.contracts.version_record import VersionRecord
from router.core.errors import Conflict, Poison
from router.extensions.store import AuditedExtensions, ExtensionNotFound, ExtensionStore
from router.operate.admin import ServiceError
from router.operate.admin.request_fields import RequestFields
from router.operate.admin.service import Answer, Service
from router.operate.admin.service_error import (
    CONFLICT,
    EXTENSION_NOT_FOUND,
    INVALID_REQUEST,
    POLICY_NOT_FOUND,
)
from router.operate.audit import AuditTrail
from router.policies.model.fields import DocumentError
from router.policies.store import AuditedPolicies, PolicyNotFound, PolicyStore, StoredPolicy

ADMIN_AUTHOR = "admin service"  # of a request that names none
NOT_IN_ENTRY = ("replaces", "author")  # fields of a request that are not part of the registry entry


class RequestTrail(AuditTrail, Protocol):
    """The audit events of one request. `lost`: the code of the error by which one could not be
    stored.
    """

    lost: str


OpenTrail = Callable[[str], RequestTrail]  # by the request's author


class PolicyServices:
    """Accepts `_shared` as a tenant; elsewhere a tenant reads its own policies only."""

    def __init__(self, store: PolicyStore, open_trail: OpenTrail) -> None:
        self._store = store
        self._open_trail = open_trail

    def list_services(self) -> tuple[Service, ...]:
        one = "{tenant_id, policy_id, version, author, time, hash}"
        put, gone = (
            "{tenant_id, policy_id, policy, replaces?, author?}",
            "{tenant_id, policy_id, replaces?, author?}",
        )
        done = "{ok, tenant_id, policy_id, version, audit_lost?}"
        return (
            Service(
                "list_policies",
                "Policies, of all tenants or of one",
                "{tenant_id?}",
                f"{{ok, policies[{one}]}}",
                self.list,
            ),
            Service(
                "get_policy",
                "A policy as it stands",
                "{tenant_id, policy_id, version?}",
                f"{{ok, …{one}, policy}}",
                self.get,
            ),
            Service(
                "put_policy",
                "Write a policy; `replaces` names the version it replaces, absent = there is none",
                put,
                done,
                self.put,
            ),
            Service("delete_policy", "Delete a policy; its history stays", gone, done, self.delete),
        )

    async def list(self, asked: RequestFields) -> Answer:
        return {
            "policies": [
                _policy_fields(one)
                for one in await self._store.list(asked.optional_policy_tenant())
            ]
        }

    async def get(self, asked: RequestFields) -> Answer:
        with translate_errors():
            found = await self._store.get(
                asked.policy_tenant(), asked.policy_id(), version=asked.integer("version")
            )
        return {**_policy_fields(found), "policy": found.record.document}

    async def put(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id, document = (
            asked.policy_tenant(),
            asked.policy_id(),
            orjson.dumps(asked.json_object("policy")),
        )
        replaces, author = asked.replaced_version() or 0, _read_author(asked)
        trail = self._open_trail(author)
        with translate_errors():
            version = await AuditedPolicies(self._store, trail).put(
                tenant_id, policy_id, document, replaces=replaces, author=author
            )
        return {
            "tenant_id": tenant_id,
            "policy_id": policy_id,
            "version": version,
            **_tell_loss(trail),
        }

    async def delete(self, asked: RequestFields) -> Answer:
        tenant_id, policy_id, trail = (
            asked.policy_tenant(),
            asked.policy_id(),
            self._open_trail(_read_author(asked)),
        )
        with translate_errors():
            version = await AuditedPolicies(self._store, trail).delete(
                tenant_id, policy_id, replaces=asked.replaced_version()
            )
        return {
            "tenant_id": tenant_id,
            "policy_id": policy_id,
            "version": version,
            **_tell_loss(trail),
        }


class ExtensionServices:
    """What `router extension` does, for a NATS client."""

    def __init__(self, store: ExtensionStore, open_trail: OpenTrail) -> None:
        self._store = store
        self._open_trail = open_trail

    def list_services(self) -> tuple[Service, ...]:
        listed = "{ok, extensions[{id, version, author, time, hash, entry}]}"
        put = (
            "a registry entry {id, type, subject, …}; beside it replaces? (0: only if there is "
            "none), author?"
        )
        return (
            Service("list_extensions", "Every registered extension", "{}", listed, self.list),
            Service(
                "put_extension",
                "Register an extension, or register it anew",
                put,
                "{ok, id, version, is_new, audit_lost?}",
                self.put,
            ),
            Service(
                "delete_extension",
                "Remove an extension",
                "{id, replaces?, author?}",
                "{ok, id, version, audit_lost?}",
                self.delete,
            ),
        )

    async def list(self, asked: RequestFields) -> Answer:
        found = await self._store.list()
        return {
            "extensions": [
                {"id": one.entry.id, **_record_fields(one.record), "entry": one.record.document}
                for one in found
            ]
        }

    async def put(self, asked: RequestFields) -> Answer:
        """Without `replaces` any version is replaced, so that a service can register itself again."""
        entry, replaces, author = (
            asked.exclude(*NOT_IN_ENTRY),
            asked.replaced_version(),
            _read_author(asked),
        )
        trail = self._open_trail(author)
        with translate_errors():
            written = await AuditedExtensions(self._store, trail).put(
                entry, author=author, replaces=replaces
            )
        return {
            "id": written.extension_id,
            "version": written.version,
            "is_new": written.is_new,
            **_tell_loss(trail),
        }

    async def delete(self, asked: RequestFields) -> Answer:
        extension_id, trail = asked.extension_id(), self._open_trail(_read_author(asked))
        with translate_errors():
            version = await AuditedExtensions(self._store, trail).delete(
                extension_id, replaces=asked.replaced_version()
            )
        return {"id": extension_id, "version": version, **_tell_loss(trail)}


@contextmanager
def translate_errors() -> Iterator[None]:
    """Turn errors of a store into ServiceError: mistakes with their paths, a conflict with the
    version that is stored now.
    """
    try:
        yield
    except DocumentError as exc:
        errors = [{"path": path, "message": message} for path, message in exc.errors]
        raise ServiceError(
            INVALID_REQUEST, str(exc), {"field": exc.errors[0][0], "errors": errors}
        ) from exc
    except PolicyNotFound as exc:
        raise ServiceError(POLICY_NOT_FOUND, str(exc)) from exc
    except ExtensionNotFound as exc:
        raise ServiceError(EXTENSION_NOT_FOUND, str(exc)) from exc
    except Conflict as exc:
        raise ServiceError(
            CONFLICT, str(exc), {"version": exc.version} if exc.version is not None else None
        ) from exc
    except Poison as exc:
        raise ServiceError(INVALID_REQUEST, str(exc)) from exc


def _read_author(asked: RequestFields) -> str:
    return asked.text("author") or ADMIN_AUTHOR


def _tell_loss(trail: RequestTrail) -> dict[str, object]:
    return {"audit_lost": trail.lost} if trail.lost else {}


def _policy_fields(one: StoredPolicy) -> dict[str, object]:
    return {"tenant_id": one.tenant_id, "policy_id": one.policy_id, **_record_fields(one.record)}


def _record_fields(record: VersionRecord) -> dict[str, object]:
    return {
        "version": record.version,
        "author": record.author,
        "time": record.time,
        "hash": record.hash,
    }
