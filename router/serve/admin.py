"""The operators' services of one router: the services, those of policies and extensions over their
stores, and their request guard.

The audit events of what they write stand first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Protocol

import orjson

from router.config import Settings
from router.contracts.version_record import VersionRecord
from router.core.errors import Conflict, Poison, RouterError
from router.decide.decision_services import DecisionServices, RecordedServices, version_finder
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.extensions.instances import Instances
from router.extensions.pipeline_services import PipelineServices
from router.extensions.store import AuditedExtensions, ExtensionNotFound, ExtensionStore
from router.operate.admin import AdminServer, RequestGuard, ServiceError
from router.operate.admin.broadcast import Peers
from router.operate.admin.request_guard import Proofs, build_reply_addresses
from router.operate.admin.service import (
    CONFLICT,
    EXTENSION_NOT_FOUND,
    INVALID_REQUEST,
    POLICY_NOT_FOUND,
    Answer,
    RequestFields,
    Service,
)
from router.operate.audit import AuditTrail, OperatorWrite
from router.operate.audit.audit_event import ADMIN_SERVICE
from router.operate.audit.audit_log import open_audit_log
from router.policies.model.fields import DocumentError
from router.policies.shared_measurements import ProviderStatsService
from router.policies.store import AuditedPolicies, PolicyNotFound, PolicyStore, StoredPolicy
from router.process.observability import LogRateLimit, events, logs
from router.serve.app_context import AppContext

# -- The operators' services for policies and extensions: list, get, put, delete over the stores.
#
# A write names the version that it replaces, or is a conflict, and leaves an audit event; where
# that cannot be stored, the answer says so by `audit_lost`, and the write stands. Errors of a
# store become error responses that say what to correct. Rule:
# docs/reference/operators.md#admin-services.


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
        row = "{tenant_id, policy_id, version, author, time, hash}"
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
                f"{{ok, policies[{row}]}}",
                self.list,
            ),
            Service(
                "get_policy",
                "A policy as it stands",
                "{tenant_id, policy_id, version?}",
                f"{{ok, …{row}, policy}}",
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
                _policy_fields(stored)
                for stored in await self._store.list(asked.optional_policy_tenant())
            ]
        }

    async def get(self, asked: RequestFields) -> Answer:
        with translate_errors():
            stored = await self._store.get(
                asked.policy_tenant(), asked.policy_id(), version=asked.integer("version")
            )
        return {**_policy_fields(stored), "policy": stored.record.document}

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
        entries = await self._store.list()
        return {
            "extensions": [
                {
                    "id": registered.entry.id,
                    **_record_fields(registered.record),
                    "entry": registered.record.document,
                }
                for registered in entries
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


def _policy_fields(stored: StoredPolicy) -> dict[str, object]:
    return {
        "tenant_id": stored.tenant_id,
        "policy_id": stored.policy_id,
        **_record_fields(stored.record),
    }


def _record_fields(record: VersionRecord) -> dict[str, object]:
    return {
        "version": record.version,
        "author": record.author,
        "time": record.time,
        "hash": record.hash,
    }


# -- The operators' services of one router: the services, the stores that they read, and their
# request guard.


# -- The services.


def build_admin_server(context: AppContext) -> AdminServer:
    """The child "admin": every service of docs/reference/operators.md#admin-services."""
    settings = context.settings
    guard = build_request_guard(context)
    server = AdminServer(
        context.connection,
        guard,
        build_services(context, guard.proofs),
        settings.admin,
        settings.node_id,
    )
    context.checks["admin"] = lambda: server.check
    return server


def build_request_guard(context: AppContext) -> RequestGuard:
    """The checks that a request to any service for operators must pass."""
    settings = context.settings
    return RequestGuard(
        _read_api_key(settings),
        addresses=build_reply_addresses(
            context.settings, context.connection, context.metrics, "services"
        ),
        max_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        key_refused=_build_key_counter(context),
    )


def _build_key_counter(context: AppContext) -> Callable[[], None]:
    once = LogRateLimit()

    def tell() -> None:
        context.metrics.admin_keys_refused.increment()
        if once.allow(None):
            log.warning(events.ADMIN_KEY_REFUSED, so_far=context.metrics.admin_keys_refused.value)

    return tell


def build_services(context: AppContext, proofs: Proofs | None) -> tuple[Service, ...]:
    """All services. `proofs`: what this instance sends to other instances in place of the API key."""
    extensions = ExtensionStore(
        DocumentBucket(context.jetstream, context.settings.buckets.extensions.name)
    )
    open_trail = partial(AdminTrail, context.settings, context.jetstream)
    return (
        *PolicyServices(context.policy_store, open_trail).list_services(),
        *ExtensionServices(extensions, open_trail).list_services(),
        *_build_instances(context, proofs).list_services(),
        *_build_pipelines(context).list_services(),
        *_build_decision_services(context, proofs),
        *_build_recorded_services(context),
        *ProviderStatsService(context.measurements, context.settings.node_id).list_services(),
    )


def _build_pipelines(context: AppContext) -> PipelineServices:
    timeout_ms = context.settings.decide.pipeline_timeout_ms
    return PipelineServices(
        context.policies,
        context.extensions,
        context.health,
        context.providers,
        timeout_ms=timeout_ms,
    )


def _build_instances(context: AppContext, proofs: Proofs | None) -> Instances:
    node_id, peers = context.settings.node_id, _build_peers(context, proofs)
    return Instances(context.registry, context.health, context.breakers, node_id, peers)


def _build_decision_services(context: AppContext, proofs: Proofs | None) -> tuple[Service, ...]:
    peers, single_tenant = _build_peers(context, proofs), _find_single_tenant(context.settings)
    return DecisionServices(
        context.remembered_answers, context.assignment_store, peers, single_tenant
    ).list_services()


def _build_peers(context: AppContext, proofs: Proofs | None) -> Peers:
    return Peers(context.connection, proofs, context.settings.admin.peers_wait_ms / 1000)


def _build_recorded_services(context: AppContext) -> tuple[Service, ...]:
    find_version = version_finder(context.policies, context.policy_store)
    return RecordedServices(
        context.recorder, find_version, context.settings.node_id
    ).list_services()


def _find_single_tenant(settings: Settings) -> str | None:
    """The one tenant whose decisions can be read here, if the settings name exactly one."""
    served = settings.tenants_allowed
    return settings.admin.single_tenant or (served[0] if len(served) == 1 else None)


def _read_api_key(settings: Settings) -> str | None:
    secret = settings.admin.api_key
    return secret.get_secret_value() if secret is not None else None


# -- The audit events of writes that come as requests: stored after each write; one that cannot
# be stored is logged, and answered.

log = logs.logger(__name__)


class AdminTrail:
    """Of one request. `by`: the author that it names."""

    def __init__(self, settings: Settings, jetstream: JetStream, by: str) -> None:
        self._log = open_audit_log(settings, jetstream, by, ADMIN_SERVICE)
        self._by = by
        self.lost = ""  # the code of the error by which the event could not be stored

    async def record(self, write: OperatorWrite) -> None:
        """Store the event of a write that is done."""
        try:
            await self._log.store(write)
        except RouterError as exc:
            self.lost = exc.code
            log.error(
                events.ADMIN_AUDIT_LOST,
                command=write.command,
                target=write.target,
                by=self._by,
                error=str(exc),
            )
