"""The time at which a message was stored first: from a replay's header, else the time of its own
stream.

A dead letter is replayed days later, and its message may name no time. Then the time of its first
storing counts, not that of the replay: otherwise next month's replay stands on next month's bill.
The replay carries it in a header, from dead letter to dead letter. A sender may write the header
too, so a value that is not a time before this storing counts as absent.
"""

from __future__ import annotations

from router.core.message import Message

FIRST_STORED = "x-first-stored-ms"  # milliseconds since the epoch
_MOST_DIGITS = 15


def first_stored_ms(message: Message) -> int:
    """Milliseconds since the epoch."""
    text = message.headers.get(FIRST_STORED)
    return (
        message.stored_ms
        if text is None
        else min(read_first_stored(text) or message.stored_ms, message.stored_ms)
    )


def read_first_stored(text: str) -> int | None:
    """The header's value; None for what is no time."""
    is_number = len(text) <= _MOST_DIGITS and text.isascii() and text.isdecimal()
    return (int(text) or None) if is_number else None
