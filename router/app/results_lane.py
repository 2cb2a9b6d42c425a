"""The results lane, put together: what workers report, metered once."""

from __future__ import annotations

from router.app.ground import Ground
from router.app.lane_metrics import LaneMetrics
from router.app.letters import letter_writer
from router.app.meters import ResultsMetrics
from router.app.pace import allow_list, pace_of, worker_limits
from router.contracts.extract import extract_ids
from router.contracts.result import RESULT
from router.contracts.usage import SUBJECT
from router.delivery.subscription import Subscription
from router.observability.tracing_messages import trace_dead_letter, trace_handler
from router.results import RecentOutcomes, ResultRules, ResultsHandler
from router.results.first_results import DAY_S


def results_lane(ground: Ground, observer: LaneMetrics) -> Subscription:
    """All the meaning that delivery is handed for results. Nobody waits for an answer to one."""
    settings = ground.settings
    return Subscription(
        stream=settings.streams.results.name,
        durable=settings.results.durable,
        options=pace_of(settings.results, settings),
        handle=trace_handler(results_handler(ground)),
        dead_letter=trace_dead_letter(letter_writer(ground, RESULT)),
        failure_reply=lambda *_: None,
        is_allowed=allow_list(settings),
        observer=observer,
        receipts_kept=DAY_S,  # longer than the stream knows its ids: a worker may repeat itself after that
        tenant_of=lambda message: extract_ids(message, RESULT).get("tenant_id", ""),
    )


def results_handler(ground: Ground) -> ResultsHandler:
    """The handler; its memory of duplicates is its own."""
    settings = ground.settings
    return ResultsHandler(
        ground.known,
        ResultsMetrics(ground.metrics, ground.violations, is_stored=settings.usage.enabled),
        ground.providers,
        rules=ResultRules(
            limits=worker_limits(settings),
            tenants_allowed=frozenset(settings.tenants_allowed),
            usage_subject=SUBJECT if settings.usage.enabled else None,
            uncorrelated=settings.usage.uncorrelated,
        ),
        recent=RecentOutcomes(keep_s=settings.streams.usage.duplicate_window_ms / 1000),  # as long as the stream itself knows its ids
        on_finished=ground.finished.finish,
    )
