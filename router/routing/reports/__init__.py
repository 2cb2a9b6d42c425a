"""What workers report: acks, results and heartbeats, compared with the stored assignments. It only decides; the bucket is a port.

results, acks                       the handlers: a result is metered once, an ack is recorded on its assignment
correlate, assignment_lookup        a message compared with the assignment that it names, behind a bounded cache
duplicates, first_results           which outcomes are metered already; what a result teaches about its provider
metering                            one outcome of a worker becomes one usage event
worker_liveness, worker_admission   which workers are alive, and which are remembered
"""

from router.routing.reports.acks import AckRules, AcksHandler, AcksMeter, AlertSink, AssignmentStates
from router.routing.reports.assignment_lookup import AssignmentCache, AssignmentLookup
from router.routing.reports.correlate import correlate, find_contradiction
from router.routing.reports.duplicates import RecentOutcomes, Repetition
from router.routing.reports.first_results import FirstResults, ProviderFigures
from router.routing.reports.metering import make_usage_effect, make_usage_event
from router.routing.reports.results import ResultRules, ResultsHandler, ResultsMeter
from router.routing.reports.worker_liveness import Liveness, TrackedWorker, WorkerChange, WorkerCondition, find_condition

__all__ = [
    "AckRules",
    "AcksHandler",
    "AcksMeter",
    "AlertSink",
    "AssignmentCache",
    "AssignmentLookup",
    "AssignmentStates",
    "FirstResults",
    "Liveness",
    "ProviderFigures",
    "RecentOutcomes",
    "Repetition",
    "ResultRules",
    "ResultsHandler",
    "ResultsMeter",
    "TrackedWorker",
    "WorkerChange",
    "WorkerCondition",
    "correlate",
    "find_condition",
    "find_contradiction",
    "make_usage_effect",
    "make_usage_event",
]
