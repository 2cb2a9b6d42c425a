"""Dead letters for operators: list, count and export what failed and why; send it again once the cause is mended.

    parse      one stored message -> one DeadLetter, also if it is unreadable
    listing    dead letters newest first, filtered
    selection  dead letters oldest first, in batches, for the steps below
    choice     which ones an operator chose
    heads      what tells the kind of each, read at a tenth of the cost
    stats      dead letters counted by kind
    export     dead letters as JSON lines
    original   a dead letter -> the message to send again, or why that is impossible
    replay     the protocol: send, prove, remove; safe to kill. `journal` records its progress, `publishers` prove what is stored,
               `interrupted` finds what a killed one sent
    discard    removes dead letters
    depth      the gauge: how many dead letters there are
    requests   many API requests at once

`contracts.dead_letter` writes dead letters, `delivery` stores them.
"""

from router.operations.deadletters.choice import DeadLetterChoice
from router.operations.deadletters.depth import DepthGauge
from router.operations.deadletters.discard import discard
from router.operations.deadletters.export import as_fields, as_full_fields, export
from router.operations.deadletters.heads import DeadLetterHead, read_heads
from router.operations.deadletters.interrupted import ReplayUnprovable
from router.operations.deadletters.journal import ReplayRunning
from router.operations.deadletters.listing import DeadLetterFilter, list_newest_first, show
from router.operations.deadletters.original import NotReplayed, ReplayOptions, original_of
from router.operations.deadletters.parse import DeadLetter, DeadLetterSource, parse
from router.operations.deadletters.replay import ReplayRate, ReplayReport, rehearse, replay
from router.operations.deadletters.selection import DeadLetterBatch, read_by_filter, read_by_sequence
from router.operations.deadletters.stats import DeadLetterGroup, group_by, reason_and_error, subject_and_reason

__all__ = [
    "DeadLetter",
    "DeadLetterBatch",
    "DeadLetterChoice",
    "DeadLetterFilter",
    "DeadLetterGroup",
    "DeadLetterHead",
    "DeadLetterSource",
    "DepthGauge",
    "NotReplayed",
    "ReplayOptions",
    "ReplayRate",
    "ReplayReport",
    "ReplayRunning",
    "ReplayUnprovable",
    "as_fields",
    "as_full_fields",
    "discard",
    "export",
    "group_by",
    "list_newest_first",
    "original_of",
    "parse",
    "read_by_filter",
    "read_by_sequence",
    "read_heads",
    "reason_and_error",
    "rehearse",
    "replay",
    "show",
    "subject_and_reason",
]
