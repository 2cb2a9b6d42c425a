"""What workers report: acks, results and heartbeats, compared with the stored assignments. It only
decides; the bucket is a port.

results, acks                       the handlers: a result is metered once, an ack is recorded on
                                    its assignment
assignments                         a message compared with the assignment that it names, looked up
                                    behind a bounded cache
result_memory                       which outcomes are metered already; what a result teaches about
                                    its provider; which later outcome corrects a bill
metering                            one outcome of a worker becomes one usage event
worker_liveness                     which workers are alive, and which are remembered
"""

from router.work.model.acknowledgements import (
    AcknowledgementHandler,
    AcknowledgementMeter,
    AlertSink,
    AssignmentStates,
)
from router.work.model.assignments import (
    AssignmentCache,
    AssignmentLookup,
    correlate,
    find_contradiction,
)
from router.work.model.metering import CostBound, make_bill, make_marked_event, make_usage_effect
from router.work.model.result_memory import (
    FirstResults,
    MeteredEvent,
    ProviderFigures,
    RecentOutcomes,
    Repetition,
    make_correction,
)
from router.work.model.results import (
    Marks,
    MeteredEvents,
    ReportMark,
    ResultRules,
    ResultsHandler,
    ResultsMeter,
)
from router.work.model.worker_liveness import (
    Liveness,
    TrackedWorker,
    WorkerChange,
    WorkerCondition,
    find_condition,
)

__all__ = [
    "AcknowledgementHandler",
    "AcknowledgementMeter",
    "AlertSink",
    "AssignmentCache",
    "AssignmentLookup",
    "AssignmentStates",
    "CostBound",
    "FirstResults",
    "Liveness",
    "Marks",
    "MeteredEvent",
    "MeteredEvents",
    "ProviderFigures",
    "RecentOutcomes",
    "Repetition",
    "ReportMark",
    "ResultRules",
    "ResultsHandler",
    "ResultsMeter",
    "TrackedWorker",
    "WorkerChange",
    "WorkerCondition",
    "correlate",
    "find_condition",
    "find_contradiction",
    "make_bill",
    "make_correction",
    "make_marked_event",
    "make_usage_effect",
]
