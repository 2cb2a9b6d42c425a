"""The router's subscriptions: each spec with its handler. A new one is an entry in JOINED and a
function that builds its handler.
"""

from __future__ import annotations

from router.config import Settings
from router.config.subscriptions import ACKNOWLEDGEMENTS, DECIDE, RESULTS
from router.contracts.acknowledgement import EXEC_ASSIGNMENT_ACK
from router.contracts.result import RESULT
from router.contracts.worker import WorkerMessageLimits
from router.serve.app_context import AppContext
from router.serve.consumer_child import JoinedSubscription, SubscriptionHandler
from router.serve.decide_subscription import join_decide
from router.serve.handler_metrics import AcknowledgementMetrics, ResultsMetrics
from router.work.assignments import AcknowledgementStore
from router.work.metered_events import StoredUsage
from router.work.model import AcknowledgementHandler, RecentOutcomes, ResultRules, ResultsHandler
from router.work.model.result_memory import DAY_S, FirstResults
from router.work.report_marks import ReportMarks


def build_results_handler(context: AppContext) -> ResultsHandler:
    """Workers report results, and the router meters each once. The handler has a new memory of
    duplicates.
    """
    settings = context.settings
    return ResultsHandler(
        context.assignments,
        ResultsMetrics(
            context.metrics, context.violations, context.alerts, is_stored=settings.usage.enabled
        ),
        FirstResults(context.providers, context.canaries.on_result),
        StoredUsage(context.jetstream),
        ReportMarks(
            context.jetstream,
            settings.buckets.assignments_known.name,
            context.registry.has_entry,
            context.budgets.clock,
        ),
        rules=ResultRules(
            limits=worker_limits(settings),
            tenants_allowed=frozenset(settings.tenants_allowed),
            usage=settings.usage,
            results=settings.results,
            window_ms=settings.streams.usage.duplicate_window_ms,
        ),
        # the duplicate window of the stream
        recent=RecentOutcomes(keep_s=settings.streams.usage.duplicate_window_ms / 1000),
        on_finished=context.finished.finish,
    )


def build_acknowledgement_handler(context: AppContext) -> AcknowledgementHandler:
    """Workers report that they accepted or refused an assignment, and the router makes it visible."""
    settings = context.settings
    return AcknowledgementHandler(
        context.assignments,
        AcknowledgementMetrics(context.metrics, context.violations),
        AcknowledgementStore(context.jetstream, settings.buckets.assignments_known.name),
        context.alerts,
        limits=worker_limits(settings),
        tenants_allowed=settings.tenants_allowed,
    )


def worker_limits(settings: Settings) -> WorkerMessageLimits:
    return WorkerMessageLimits(
        max_payload_bytes=settings.max_payload_bytes,
        max_depth=settings.max_depth,
        strict=settings.contract.mode == "strict",
        max_cost=settings.results.max_cost,
        max_timestamp_age_ms=settings.results.max_timestamp_age_ms,
        max_timestamp_ahead_ms=settings.results.max_timestamp_ahead_ms,
    )


def _join_results(context: AppContext) -> SubscriptionHandler:
    # A worker may send a result again after the duplicate window of the stream.
    return SubscriptionHandler(handle=build_results_handler(context), publish_acks_kept=DAY_S)


def _join_acknowledgements(context: AppContext) -> SubscriptionHandler:
    return SubscriptionHandler(handle=build_acknowledgement_handler(context))


JOINED = (  # in the order in which they start
    JoinedSubscription(DECIDE, join_decide),
    JoinedSubscription(RESULTS, _join_results, RESULT),
    JoinedSubscription(ACKNOWLEDGEMENTS, _join_acknowledgements, EXEC_ASSIGNMENT_ACK),
)
