"""The operators' services of one router: which there are, over which stores and memories, behind which door."""

from __future__ import annotations

from collections.abc import Mapping

from router.admin import AdminRules, AdminStation, Door, Service
from router.admin.breakers import BreakerServices
from router.admin.decisions import DecisionServices
from router.admin.door import API_KEY
from router.admin.extensions import ExtensionServices
from router.admin.gather import Peers
from router.admin.pipeline import PipelineServices
from router.admin.policies import PolicyServices
from router.admin.recorded import RecordedServices
from router.app.admin_books import Extensions, Policies
from router.app.admin_views import BreakerStates, ExtensionHealth, Pipelines
from router.app.decided import Decided
from router.app.extension_store import ExtensionStore
from router.app.ground import Ground
from router.app.recorded import RecordedDecisions, version_finder
from router.buckets.documents import Documents
from router.config import Settings


def admin_station(ground: Ground) -> AdminStation:
    """The child "admin": every service of the policy reference §4."""
    admin = ground.settings.admin
    rules = AdminRules(queue_group=admin.queue_group, at_once=admin.at_once, node_id=ground.settings.node_id)
    station = AdminStation(ground.connection, admin_door(ground), admin_services(ground), rules)
    ground.checks["admin"] = lambda: station.check
    return station


def admin_door(ground: Ground) -> Door:
    """Who may come in: the same for every service of an operator. Instances ask one another from inboxes of their own."""
    settings = ground.settings
    return Door(
        _api_key(settings),
        prefixes=(*settings.reply.prefixes, f"{settings.nats.inbox_prefix}."),
        max_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        refused=ground.metrics.replies_refused.up,
    )


def admin_services(ground: Ground) -> tuple[Service, ...]:
    """The whole table, each over what it asks."""
    extensions = ExtensionStore(Documents(ground.jetstream, ground.settings.buckets.extensions.name))
    health = ExtensionHealth(ground.registry, ground.health, ground.breakers)
    return (
        *PolicyServices(Policies(ground.policy_store)).all(),
        *ExtensionServices(Extensions(extensions), health).all(),
        *BreakerServices(BreakerStates(ground.registry, ground.breakers), ground.settings.node_id).all(),
        *PipelineServices(Pipelines(ground)).all(),
        *_decisions(ground),
        *_recorded(ground),
    )


def _decisions(ground: Ground) -> tuple[Service, ...]:
    peers = Peers(ground.connection, _key_header(ground.settings), ground.settings.admin.peers_wait_ms / 1000)
    return DecisionServices(Decided(ground.replays, ground.book), peers).all()


def _recorded(ground: Ground) -> tuple[Service, ...]:
    book = RecordedDecisions(ground.recorder, version_finder(ground.policies, ground.policy_store))
    return RecordedServices(book, ground.settings.node_id).all()


def _key_header(settings: Settings) -> Mapping[str, str]:
    key = _api_key(settings)
    return {API_KEY: key} if key is not None else {}


def _api_key(settings: Settings) -> str | None:
    secret = settings.admin.api_key
    return secret.get_secret_value() if secret is not None else None
