"""Dead letters for operators: list, count and export what failed and why; send it again once the
cause is mended.

    parse      one stored message -> one DeadLetter, also if it is unreadable; its fields
    selection  dead letters newest first, filtered; or which ones an operator chose, oldest first, in
               batches, for the steps below; and these as JSON lines
    heads      what tells a dead letter's kind, and what the console lists, at a tenth of the
               cost; and heads counted by kind
    original   a dead letter -> the message to send again, or why that is impossible
    replay     the protocol: send, prove, remove; safe to kill. `journal` records its progress
               and finds what a killed one sent, `publishers` prove what is stored
    discard    removes dead letters
    depth      the gauge: how many dead letters there are
    requests   many API requests at once

`contracts.dead_letter` writes dead letters, `delivery` stores them.
"""

from router.operate.dead_letters.depth import DepthGauge
from router.operate.dead_letters.discard import discard
from router.operate.dead_letters.heads import (
    DeadLetterGroup,
    DeadLetterHead,
    group_by,
    read_heads,
    reason_and_error,
    subject_and_reason,
)
from router.operate.dead_letters.journal import ReplayRunning, ReplayUnprovable
from router.operate.dead_letters.original import NotReplayed, ReplayOptions, original_of
from router.operate.dead_letters.parse import (
    DeadLetter,
    DeadLetterSource,
    as_fields,
    as_full_fields,
    parse,
)
from router.operate.dead_letters.replay import ReplayRate, ReplayReport, rehearse, replay
from router.operate.dead_letters.selection import (
    DeadLetterBatch,
    DeadLetterChoice,
    DeadLetterFilter,
    export,
    list_newest_first,
    read_by_filter,
    read_by_sequence,
    show,
)

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
