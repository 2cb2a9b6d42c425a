"""Extensions: what the registry says of them, how they fare, and the pipeline that a request walks.
No broker in here.

    bytes ── load_entry ──> ExtensionEntry ── ExtensionRegistry ──> find(id, …) -> Route        which service answers a call
                                     HealthTracker       observe(…) -> figures       a rolling
                                                         window for each
                                     complexity   how heavy a pipeline is
    request ── PipelineRunner ──> PipelineResult: pre, validators, the decision, post      each call by the Invoker, inside one deadline

`delivery` calls services and watches the bucket; `extensions` stores entries and follows them,
`serve` joins all of it.
"""

from router.extensions.model.complexity import Complexity, measure_complexity
from router.extensions.model.entry import (
    KINDS,
    EntryError,
    ExtensionEntry,
    ExtensionInstance,
    ExtensionVersion,
    VersionRules,
    load_entry,
    parse_entry,
    subject_of,
)
from router.extensions.model.health import HealthFigures, HealthTracker
from router.extensions.model.invoke import Invoker
from router.extensions.model.modes import ExecutedExtension, executed_fields
from router.extensions.model.pipeline import PipelineResult, PipelineRunner
from router.extensions.model.ports import (
    ExtensionCaller,
    ExtensionMeter,
    ExtensionReply,
    NullCaller,
)
from router.extensions.model.registry import ExtensionRegistry, Route
from router.extensions.model.stage import PipelineSlots

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
