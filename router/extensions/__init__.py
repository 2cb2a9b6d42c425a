"""Extensions: what the registry says of them, how they fare, and the pipeline that a request walks. Meaning: no broker in here.

    bytes ── load_entry ──> ExtensionEntry ── ExtensionRegistry ──> find(id, …) -> Route        which service answers a call
                                     HealthTracker       observe(…) -> figures       a rolling window for each
                                     complexity   how heavy a pipeline is
    request ── PipelineRunner ──> PipelineResult: pre, validators, the decision, post      each call by the Invoker, inside one deadline

Calling a service, storing entries and watching their bucket belong to motion; `app` joins them.
"""

from router.extensions.complexity import Complexity, measure_complexity
from router.extensions.entry import KINDS, ExtensionEntry, ExtensionInstance, ExtensionVersion, VersionRules, subject_of
from router.extensions.executed import ExecutedExtension, executed_fields
from router.extensions.health import HealthFigures, HealthTracker
from router.extensions.invoke import Invoker
from router.extensions.parse import EntryError, load_entry, parse_entry
from router.extensions.pipeline import PipelineResult, PipelineRunner
from router.extensions.ports import ExtensionCaller, ExtensionMeter, ExtensionReply, NullCaller
from router.extensions.registry import ExtensionRegistry, Route
from router.extensions.slots import PipelineSlots

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
