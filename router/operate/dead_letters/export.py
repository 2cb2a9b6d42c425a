"""Export dead letters as JSON lines, oldest first: every field that could be read, and the stored
bytes.

The payload is text, or base64 with `payload_encoding` beside it, as in a dead letter
(docs/reference/contracts.md#dead-letters).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import msgspec
import orjson

from router.contracts.codec import check_limits, text_of
from router.contracts.exact_json import dump_json, load_written
from router.contracts.malformed import Malformed
from router.core.header_names import tell_headers
from router.operate.dead_letters.discard import Progress
from router.operate.dead_letters.parse import DeadLetter
from router.operate.dead_letters.selection import DeadLetterBatch

Fields = dict[str, Any]


def as_fields(letter: DeadLetter) -> Fields:
    """Every field that is present, for programs."""
    names = (name for name in letter.__struct_fields__ if name not in ("raw", "payload"))
    fields: Fields = msgspec.to_builtins({name: getattr(letter, name) for name in names})
    fields["headers"] = tell_headers(letter.headers)
    if letter.payload is not None:
        fields["payload"], fields["payload_encoding"] = text_of(letter.payload)
    return {name: value for name, value in fields.items() if value not in (None, {})}


def as_full_fields(letter: DeadLetter) -> Fields:
    """The same, and beside it the dead letter as it is stored; None when that is not JSON, or nests
    deeper than JSON can be written.
    """
    try:
        check_limits(letter.raw, len(letter.raw))
        stored = load_written(letter.raw)
    except (Malformed, ValueError):
        stored = None
    return {**as_fields(letter), "letter": stored}


async def export(
    chosen: AsyncIterator[DeadLetterBatch],
    write: Callable[[bytes], object],
    on_progress: Progress = lambda *_: None,
) -> int:
    """Write each selected dead letter as one line; returns how many there were."""
    count = 0
    async for handful in chosen:
        for letter in handful.dead_letters:
            write(dump_json(as_full_fields(letter), option=orjson.OPT_APPEND_NEWLINE))
        count += len(handful.dead_letters)
        on_progress(handful.looked, handful.total)
    return count
