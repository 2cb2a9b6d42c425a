"""Extensions: what the registry says of them, how they fare, and the pipeline that a request walks. Meaning: no broker in here.

    bytes ── load_entry ──> Entry ── Registry ──> find(id, …) -> Route        which service answers a call
                                     Health       observe(…) -> figures       a rolling window for each
                                     complexity   how heavy a pipeline is
    request ── Extensions ──> Piped: pre, validators, the decision, post      each call by the Invoker, inside one deadline

Calling a service, storing entries and watching their bucket belong to motion; `app` joins them.
"""

from router.extensions.complexity import Complexity, complexity
from router.extensions.entry import KINDS, Entry, Instance, Rules, Version, subject_of
from router.extensions.executed import Executed, executed_fields
from router.extensions.health import Health, HealthFigures
from router.extensions.invoke import Invoker
from router.extensions.parse import EntryError, load_entry, parse_entry
from router.extensions.pipeline import Extensions, Piped
from router.extensions.ports import Answered, Caller, Meter, Nobody
from router.extensions.registry import Registry, Route
from router.extensions.slots import PipelineSlots

__all__ = [
    "KINDS",
    "Answered",
    "Caller",
    "Complexity",
    "Entry",
    "EntryError",
    "Executed",
    "Extensions",
    "Health",
    "HealthFigures",
    "Instance",
    "Invoker",
    "Meter",
    "Nobody",
    "Piped",
    "PipelineSlots",
    "Registry",
    "Route",
    "Rules",
    "Version",
    "complexity",
    "executed_fields",
    "load_entry",
    "parse_entry",
    "subject_of",
]
