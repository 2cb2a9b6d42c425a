"""The operators' services of one router: the services, the stores that they read, and their request
guard.

The audit events of what they write stand first.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from router.config import Settings
from router.core.errors import RouterError
from router.decide.decision_services import DecisionServices
from router.decide.recorded_decisions import RecordedServices, version_finder
from router.delivery.kv.documents import DocumentBucket
from router.delivery.wire.api import JetStream
from router.extensions.instances import Instances
from router.extensions.pipeline_services import PipelineServices
from router.extensions.store import ExtensionStore
from router.operate.admin import AdminServer, RequestGuard, Service
from router.operate.admin.peers import Peers
from router.operate.admin.proof import Proofs
from router.operate.admin.reply_addresses import build_reply_addresses
from router.operate.audit import OperatorWrite
from router.operate.audit.audit_event import ADMIN_SERVICE
from router.operate.audit.audit_log import open_audit_log
from router.policies.provider_stats import ProviderStatsService
from router.process.observability import LogRateLimit, events, logs
from router.serve.admin_stores import ExtensionServices, PolicyServices
from router.serve.app_context import AppContext

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
