"""Dead letters, for whoever works with them: what failed, why, what it said; and sent again once that is mended.

    parse      one stored message -> one Letter, whatever stands in it
    listing    newest first, filtered: what has just gone wrong
    choice     oldest first, in handfuls: what is to be worked on
    stats      letters counted by kind
    export     letters as JSON lines
    original   a letter -> the message to send again, or why that cannot be
    replay     the protocol: send, prove, remove; safe to kill. `journal` is its memory, `outlets` its proofs
    discard    letters removed
    depth      the gauge: how many stand there
    asking     many API requests at once

Letters are written by meaning (`contracts.letter`) and stored by delivery.
"""

from router.deadletters.choice import Handful, by_filter, by_sequence
from router.deadletters.depth import Depth
from router.deadletters.discard import discard
from router.deadletters.export import as_fields, export, whole
from router.deadletters.journal import ReplayRunning
from router.deadletters.listing import Wanted, newest_first, show
from router.deadletters.original import Kept, Replaying, original_of
from router.deadletters.parse import Letter, Source, parse
from router.deadletters.replay import EvidenceGone, Pace, Report, rehearse, replay
from router.deadletters.stats import Group, grouped, reason_and_error, subject_and_reason

__all__ = [
    "Depth",
    "EvidenceGone",
    "Group",
    "Handful",
    "Kept",
    "Letter",
    "Pace",
    "ReplayRunning",
    "Replaying",
    "Report",
    "Source",
    "Wanted",
    "as_fields",
    "by_filter",
    "by_sequence",
    "discard",
    "export",
    "grouped",
    "newest_first",
    "original_of",
    "parse",
    "reason_and_error",
    "rehearse",
    "replay",
    "show",
    "subject_and_reason",
    "whole",
]
