"""The operators' services of one router: the services, the stores that they read, and their request guard."""

from __future__ import annotations

from collections.abc import Callable

from router.admin import AdminRules, AdminServer, RequestGuard, Service
from router.admin.breakers import BreakerServices
from router.admin.decisions import DecisionServices
from router.admin.extensions import ExtensionServices
from router.admin.instances import Instances
from router.admin.peers import Peers
from router.admin.pipeline import PipelineServices
from router.admin.policies import PolicyServices
from router.admin.proof import Proofs
from router.admin.recorded import RecordedServices
from router.app.admin_books import Extensions, Policies
from router.app.admin_views import BreakerStates, ExtensionHealth, Pipelines
from router.app.decided import Decided
from router.app.extension_store import ExtensionStore
from router.app.ground import Ground
from router.app.reach import own_inboxes
from router.app.recorded import RecordedDecisions, version_finder
from router.app.refused_addresses import note_refused
from router.buckets.documents import DocumentBucket
from router.config import Settings
from router.observability import LogRateLimit, events, logs

log = logs.logger(__name__)


def admin_station(ground: Ground) -> AdminServer:
    """The child "admin": every service of docs/operators.md#admin-services."""
    admin = ground.settings.admin
    rules = AdminRules(queue_group=admin.queue_group, at_once=admin.at_once, node_id=ground.settings.node_id)
    guard = admin_door(ground)
    station = AdminServer(ground.connection, guard, admin_services(ground, guard.proofs), rules)
    ground.checks["admin"] = lambda: station.check
    return station


def admin_door(ground: Ground) -> RequestGuard:
    """Who may come in: the same for every service of an operator."""
    settings = ground.settings
    return RequestGuard(
        _api_key(settings),
        prefixes=settings.reply.prefixes,
        own=own_inboxes(settings, ground.connection),
        max_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        refused=note_refused(ground.metrics, "services"),
        key_refused=_key_refused(ground),
    )


def _key_refused(ground: Ground) -> Callable[[], None]:
    once = LogRateLimit()

    def tell() -> None:
        ground.metrics.admin_keys_refused.increment()
        if once.allow(None):
            log.warning(events.ADMIN_KEY_REFUSED, so_far=ground.metrics.admin_keys_refused.value)

    return tell


def admin_services(ground: Ground, proofs: Proofs | None) -> tuple[Service, ...]:
    """The whole table, each over what it asks. `proofs`: what other instances are shown in place of the key."""
    extensions = ExtensionStore(DocumentBucket(ground.jetstream, ground.settings.buckets.extensions.name))
    instances = _instances(ground, proofs)
    return (
        *PolicyServices(Policies(ground.policy_store)).list_services(),
        *ExtensionServices(Extensions(extensions), instances).list_services(),
        *BreakerServices(instances).list_services(),
        *instances.list_services(),
        *PipelineServices(Pipelines(ground)).list_services(),
        *_decisions(ground, proofs),
        *_recorded(ground),
    )


def _instances(ground: Ground, proofs: Proofs | None) -> Instances:
    health = ExtensionHealth(ground.registry, ground.health, ground.breakers)
    states = BreakerStates(ground.registry, ground.breakers)
    return Instances(health, states, ground.settings.node_id, _peers(ground, proofs))


def _decisions(ground: Ground, proofs: Proofs | None) -> tuple[Service, ...]:
    return DecisionServices(Decided(ground.replays, ground.book), _peers(ground, proofs), _single_tenant(ground.settings)).list_services()


def _peers(ground: Ground, proofs: Proofs | None) -> Peers:
    return Peers(ground.connection, proofs, ground.settings.admin.peers_wait_ms / 1000)


def _recorded(ground: Ground) -> tuple[Service, ...]:
    book = RecordedDecisions(ground.recorder, version_finder(ground.policies, ground.policy_store))
    return RecordedServices(book, ground.settings.node_id).list_services()


def _single_tenant(settings: Settings) -> str | None:
    """The one tenant whose decisions may be asked for here, where there is one."""
    served = settings.tenants_allowed
    return settings.admin.single_tenant or (served[0] if len(served) == 1 else None)


def _api_key(settings: Settings) -> str | None:
    secret = settings.admin.api_key
    return secret.get_secret_value() if secret is not None else None
