"""What is settled of budgets: read before the tables, so that these are not behind for long."""

from __future__ import annotations

from router.budgets.sums import BudgetSum, read_budget_sums
from router.lake.source.broker import Broker
from router.lake.source.options import SourceOptions


def read_sums(options: SourceOptions, budgets: str, spent: str) -> list[BudgetSum]:
    """Every window of the budgets in these buckets. Raises BrokerUnavailable."""
    with Broker(options) as broker:
        return broker.run(read_budget_sums(broker.jetstream, budgets, spent))
