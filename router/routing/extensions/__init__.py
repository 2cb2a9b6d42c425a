"""Extensions: what the registry says of them, how they fare, and the pipeline that a request walks. No broker in here.

    bytes ── load_entry ──> ExtensionEntry ── ExtensionRegistry ──> find(id, …) -> Route        which service answers a call
                                     HealthTracker       observe(…) -> figures       a rolling window for each
                                     complexity   how heavy a pipeline is
    request ── PipelineRunner ──> PipelineResult: pre, validators, the decision, post      each call by the Invoker, inside one deadline

`delivery` calls services, stores entries and watches their bucket; `services` and `app` join them.
"""

from router.routing.extensions.complexity import Complexity, measure_complexity
from router.routing.extensions.entry import KINDS, ExtensionEntry, ExtensionInstance, ExtensionVersion, VersionRules, subject_of
from router.routing.extensions.health import HealthFigures, HealthTracker
from router.routing.extensions.invoke import Invoker
from router.routing.extensions.modes import ExecutedExtension, executed_fields
from router.routing.extensions.parse import EntryError, load_entry, parse_entry
from router.routing.extensions.pipeline import PipelineResult, PipelineRunner
from router.routing.extensions.ports import ExtensionCaller, ExtensionMeter, ExtensionReply, NullCaller
from router.routing.extensions.registry import ExtensionRegistry, Route
from router.routing.extensions.slots import PipelineSlots

__all__ = [
    "KINDS",
    "Complexity",
    "EntryError",
    "ExecutedExtension",
    "ExtensionCaller",
    "ExtensionEntry",
    "ExtensionInstance",
    "ExtensionMeter",
    "ExtensionRegistry",
    "ExtensionReply",
    "ExtensionVersion",
    "HealthFigures",
    "HealthTracker",
    "Invoker",
    "NullCaller",
    "PipelineResult",
    "PipelineRunner",
    "PipelineSlots",
    "Route",
    "VersionRules",
    "executed_fields",
    "load_entry",
    "measure_complexity",
    "parse_entry",
    "subject_of",
]
