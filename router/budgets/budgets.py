"""The budgets of this process: followed, leased, settled (docs/reference/budgets.md)."""

from __future__ import annotations

import uuid

from router.budgets.booking import BudgetBooking
from router.budgets.leases import BudgetLeases
from router.budgets.model import BudgetTable
from router.budgets.spent_documents import SpentDocuments
from router.budgets.store import FollowedBudgets
from router.config import Settings
from router.core.clock import Clock, steady, wall
from router.delivery.wire.api import JetStream
from router.delivery.wire.server_clock import ServerClock
from router.delivery.wire.shared_info import SharedInfo
from router.operate.alerts import Alerts


class Budgets:
    """Its parts, joined. The clocks are this machine's."""

    def __init__(
        self,
        jetstream: JetStream,
        settings: Settings,
        alerts: Alerts,
        infos: SharedInfo | None = None,
        *,
        now: Clock = steady,
        wall_clock: Clock = wall,
    ) -> None:
        buckets, usage, config = settings.buckets, settings.streams.usage.name, settings.budgets
        self.clock = ServerClock(jetstream, usage, now=now, wall_clock=wall_clock)
        self.table = BudgetTable(
            uuid.uuid4().hex, config.slice_percent / 100, self.clock, config.least_reservation
        )
        self.followed = FollowedBudgets(jetstream, buckets.budgets.name, self.table, infos)
        self.documents = SpentDocuments(jetstream, buckets.budgets_spent.name)
        self.leases = BudgetLeases(
            self.table, self.documents, self.clock, alerts, config.reservation_ms / 1000
        )
        self.booking = BudgetBooking(
            jetstream,
            usage,
            self.followed,
            self.table,
            self.documents,
            self.clock,
            alerts,
            clock=now,
        )
