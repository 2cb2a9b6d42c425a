"""The subscription for results: workers report them, and the router meters each once."""

from __future__ import annotations

from router.app.app_context import AppContext
from router.app.consumer_options import allow_list, build_consumer_options, worker_limits
from router.app.dead_letter_writer import build_dead_letter_writer
from router.contracts.extract import extract_ids
from router.contracts.result import RESULT
from router.contracts.usage import SUBJECT
from router.delivery.subscription import Subscription
from router.operations.observability.tracing_messages import trace_dead_letter, trace_handler
from router.routing.reports import RecentOutcomes, ResultRules, ResultsHandler
from router.routing.reports.first_results import DAY_S
from router.services.consumer_metrics import ConsumerMetrics
from router.services.handler_metrics import ResultsMetrics


def build_results_subscription(context: AppContext, observer: ConsumerMetrics) -> Subscription:
    """Everything that the consumer needs to handle results. Workers do not wait for a reply, so there is none."""
    settings = context.settings
    return Subscription(
        stream=settings.streams.results.name,
        durable=settings.results.durable,
        options=build_consumer_options(settings.results, settings),
        handle=trace_handler(build_results_handler(context)),
        dead_letter=trace_dead_letter(build_dead_letter_writer(context, RESULT)),
        failure_reply=lambda *_: None,
        is_allowed=allow_list(settings),
        observer=observer,
        publish_acks_kept=DAY_S,  # a worker may send a result again after the duplicate window of the stream
        tenant_of=lambda message: extract_ids(message, RESULT).get("tenant_id", ""),
    )


def build_results_handler(context: AppContext) -> ResultsHandler:
    """The handler, with a new memory of duplicates."""
    settings = context.settings
    return ResultsHandler(
        context.assignments,
        ResultsMetrics(context.metrics, context.violations, is_stored=settings.usage.enabled),
        context.providers,
        rules=ResultRules(
            limits=worker_limits(settings),
            tenants_allowed=frozenset(settings.tenants_allowed),
            usage_subject=SUBJECT if settings.usage.enabled else None,
            uncorrelated=settings.usage.uncorrelated,
        ),
        recent=RecentOutcomes(keep_s=settings.streams.usage.duplicate_window_ms / 1000),  # the duplicate window of the stream
        on_finished=context.finished.finish,
    )
