"""Objects shared by all consumers of a process: its connections, caches, stores, metrics.

They are created once and survive restarts of supervised children, so that a restart loses no cache.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Collection
from functools import partial

from msgspec import Struct

from router.budgets.budgets import Budgets
from router.budgets.model.prices import PriceTable, Pricing
from router.budgets.prices.shared_ratios import SharedRatios
from router.budgets.prices.store import FollowedPrices
from router.config import NatsConfig, Settings
from router.config.connect import connect_by
from router.decide.decision_services import build_recorder
from router.decide.model import IdempotencyCache
from router.decide.model.tenant_places import TenantPlaces
from router.decide.stored_places import StoredPlaces
from router.delivery.consume.shares import TenantShares
from router.delivery.kv.batched_reader import BatchedKvReader
from router.delivery.kv.documents import DocumentBucket
from router.delivery.replies.replied_requests import RepliedRequests
from router.delivery.wire.api import JetStream
from router.delivery.wire.connection import Connection
from router.delivery.wire.shared_info import SharedInfo
from router.extensions.invoker import build_extension_invoker, build_pipeline_runner
from router.extensions.model import ExtensionRegistry, HealthTracker
from router.extensions.store import FollowedExtensions
from router.operate.alerts import Alerts
from router.operate.violations.recorder import ViolationRecorder
from router.policies.breakers import Breakers, SharedBreakers, breaker_rules
from router.policies.canaries import SharedCanaries
from router.policies.followed import FollowedPolicies
from router.policies.model import DEFAULT_COST, Averages, PolicyTable, ProviderTracker, SharedRates
from router.policies.model.measurements import Measurements
from router.policies.shared_measurements import SharedMeasurements
from router.policies.store import PolicyStore
from router.process.observability import Metrics, ReadinessCheck, events, logs
from router.shell.host import HeldConnection, Told
from router.work.assignments import AssignmentStore, build_finished_removal
from router.work.model import AssignmentCache, CostBound

# -- The connections of one router, separated by who can fill them with traffic.
#
#     main        pulls, JetStream's API, publishes, answers, and the listener
#     workers     heartbeats, and dead letters of workers
#     providers   invocations, and the responses and streams of providers
#
# Other programs decide how many messages arrive on the last two. When more arrive than the server
# buffers for a client, it disconnects that client as a slow consumer. Then only that connection
# reconnects: no message is redelivered, no call is lost, and the consumers go on.
#
# The listener shares the connection with the consumers: it must receive a request before the
# consumer pulls it, and only one connection guarantees that order. Over two connections the
# answer to a retry went to the inbox of the first try, and each single request cost a second
# read.


log = logs.logger(__name__)

CONNECT_RETRY_S = 0.05  # between two attempts to connect: messages in between are lost


class Connections(Struct, frozen=True):
    """Where a separate connection is not needed, it is `main`."""

    main: Connection
    workers: Connection
    providers: Connection

    @classmethod
    def from_one(cls, connection: Connection) -> Connections:
        """All three roles on one connection."""
        return cls(connection, connection, connection)

    @property
    def lost(self) -> list[str]:
        """The names of those that are not connected."""
        return [name for name in self.__struct_fields__ if not getattr(self, name).is_connected]


def list_others(config: NatsConfig, metrics: Metrics, *, providers: bool) -> list[HeldConnection]:
    """The connections other than `main`, in the order of `Connections`."""

    def count() -> None:
        metrics.reconnects.value += 1

    names = ("workers", "providers") if providers else ("workers",)
    return [HeldConnection(partial(_connect, config, name), name, on_back=count) for name in names]


async def _connect(config: NatsConfig, name: str, *, on_lost: Told, on_back: Told) -> Connection:
    named = config.model_copy(update={"name": f"{config.name}-{name}"})
    connection = await connect_by(named, on_lost=on_lost, on_back=on_back, again_s=CONNECT_RETRY_S)
    connection.on_fault = lambda exc: log.error(events.BROKER_ERROR, connection=name, exc_info=exc)
    return connection


# -- Objects shared by all consumers of a process: connection, caches, stores, metrics.


def has_passing_copies(settings: Settings) -> bool:
    """Whether the listener receives copies of requests, and may answer from a copy."""
    return (
        settings.reply.listener
        and settings.reply.confirm == "decision"
        and settings.admission.fair_after_ms is not None
    )


class AppContext:
    """Created once, after the process has connected."""

    def __init__(
        self,
        settings: Settings,
        metrics: Metrics,
        alerts: Alerts,
        policies: PolicyTable,
        jetstream: JetStream,
        *,
        connections: Connections | None = None,
        infos: SharedInfo | None = None,
    ) -> None:
        infos = self.infos = infos if infos is not None else SharedInfo(jetstream)
        self.connections = connections or Connections.from_one(jetstream.connection)
        self.settings = settings
        self.metrics = metrics
        self.alerts = alerts
        self.policies = policies
        self.jetstream = jetstream
        # readiness checks of other parts than consumers
        self.checks: dict[str, Callable[[], ReadinessCheck]] = {}
        self.violations = ViolationRecorder(
            settings, metrics, alerts, has_policies=policies.has_tenant
        )
        self.budgets = Budgets(jetstream, settings, alerts, infos)
        self.rates = SharedRates() if settings.rate_limits.shared else None
        self.replied_requests = _build_replied_requests(settings)
        self.remembered_answers = IdempotencyCache(
            jetstream.connection, settings.idempotency.entries, settings.idempotency.ttl_ms / 1000
        )
        self.finished = build_finished_removal(settings, jetstream, metrics, infos)
        self._add_places()
        self._add_policies()
        self._add_prices()
        self._add_providers()
        self._add_assignments()
        self._add_extensions()
        self.checks["budgets"] = lambda: self.budgets.followed.check

    def _add_places(self) -> None:
        """Of tenants, in the turns."""
        settings, bucket = self.settings, self.settings.buckets.rate_limits.name
        named = (
            *settings.tenants_allowed,
            *settings.metrics.tenant_label_allowlist,
            *settings.admission.weights,
        )
        self.places = TenantPlaces(
            self.policies.has_tenant, frozenset(named), clock=self.budgets.clock
        )
        self.stored_places = StoredPlaces(self.jetstream, bucket, self.places)

    def _add_policies(self) -> None:
        bucket = self.settings.buckets.policies.name
        self.policy_store = PolicyStore(DocumentBucket(self.jetstream, bucket))
        self.followed_policies = FollowedPolicies(self.jetstream, bucket, self.policies, self.infos)
        self.checks["policies"] = lambda: self.followed_policies.check

    def _add_prices(self) -> None:
        settings = self.settings
        self.pricing = _build_prices(settings)
        bucket, currency = settings.buckets.prices.name, settings.usage.currency
        self.shared_ratios = SharedRatios(
            self.jetstream, settings.buckets.ratios.name, self.pricing.ratios
        )
        self.followed_prices = FollowedPrices(
            self.jetstream, bucket, self.pricing.table, currency, self.infos
        )
        self.checks["prices"] = lambda: self.followed_prices.check

    def _add_providers(self) -> None:
        """What is known of providers, and shared with other instances."""
        settings, policies, jetstream, infos = (
            self.settings,
            self.policies,
            self.jetstream,
            self.infos,
        )
        shared = SharedBreakers(
            jetstream,
            settings.buckets.breakers.name,
            settings.node_id,
            wall_clock=self.budgets.clock,
            infos=infos,
        )
        self.breakers = Breakers(
            self.metrics,
            self.alerts,
            shared,
            policies.get_all,
            providers=settings.providers,
            rules=breaker_rules(settings.extension_breaker),
        )
        self.measurements = Measurements(today=self.budgets.clock)
        self.providers = ProviderTracker(
            Averages(), self.breakers.providers, self.breakers.limits, self.measurements
        )
        self.shared_measurements = SharedMeasurements(
            jetstream,
            settings.buckets.figures.name,
            settings.node_id,
            self.measurements,
            policies.get_all,
            wall_clock=self.budgets.clock,
            infos=infos,
        )
        self.canaries = SharedCanaries(
            jetstream,
            settings.buckets.canaries.name,
            settings.node_id,
            policies=policies,
            store=self.policy_store,
            alerts=self.alerts,
            wall_clock=self.budgets.clock,
            infos=infos,
        )
        self.recorder = build_recorder(settings, self.measurements.figures_of)

    def _add_assignments(self) -> None:
        settings, jetstream, infos = self.settings, self.jetstream, self.infos
        bucket = settings.buckets.assignments_known.name
        self.assignments = AssignmentCache(BatchedKvReader(jetstream, bucket).find)
        self.assignment_store = AssignmentStore(
            jetstream,
            bucket,
            self.assignments,
            self.measurements.on_assigned,
            takes_batches=settings.effects.batches,
        )
        streams = settings.streams
        self.assignment_shares = TenantShares(
            jetstream, streams.assignments.name, settings.assignment.tenant_share, infos=infos
        )
        self.dead_letter_shares = TenantShares(
            jetstream, streams.dlq.name, settings.dlq.tenant_share, infos=infos
        )

    def _add_extensions(self) -> None:
        settings, jetstream, metrics = self.settings, self.jetstream, self.metrics
        self.registry, self.health = ExtensionRegistry(), HealthTracker()
        self.invoker = build_extension_invoker(
            jetstream.connection, self.breakers, self.health, metrics
        )
        self.extensions = build_pipeline_runner(
            settings, self.registry, self.invoker, metrics, self.places.find
        )
        self.followed_extensions = FollowedExtensions(
            jetstream,
            settings.buckets.extensions.name,
            self.registry,
            self._forget_other_extensions,
            settings.extensions.dir,
            infos=self.infos,
        )
        self.checks["extensions"] = lambda: self.followed_extensions.check

    def select_partition(self, settings: Settings) -> AppContext:
        """The same objects for another partition: all are shared but the settings and the marks of
        answered passing copies.
        """
        other = copy.copy(self)
        other.settings = settings
        other.replied_requests = _build_replied_requests(settings)
        return other

    def _forget_other_extensions(self, extension_ids: Collection[str]) -> None:
        self.health.keep(extension_ids)
        self.breakers.extensions.keep(extension_ids)

    @property
    def connection(self) -> Connection:
        return self.jetstream.connection


def _build_replied_requests(settings: Settings) -> RepliedRequests | None:
    return RepliedRequests() if has_passing_copies(settings) else None


def _build_prices(settings: Settings) -> Pricing:
    """What no price stands behind is bounded as a result of a policy that names no cost is."""
    results = settings.results
    unpriced = CostBound(results).find_of(DEFAULT_COST)
    return Pricing(
        PriceTable(),
        max_cost=results.max_cost,
        unpriced=unpriced,
        factor=results.cost_factor,
        floor=results.cost_floor,
    )
