"""How long does a stream last, and when is it full? Computed from the rate of its newest tenth, or
of all its messages.

A full stream that discards new messages refuses them, and their publishers wait. One that discards
old messages loses the oldest, read or not. A stream whose age limit frees space faster than it
fills is never full; nor is one whose messages are removed when they are finished, as long as
workers settle them.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.operate.doctor.facts import Facts, StreamFacts
from router.operate.doctor.finding import Finding, fail, ok, share, size, span, warn

HISTORY_S = 60.0  # a rate of less than a minute is not reliable
DAY_S = 24 * 3600.0
SOON_S = DAY_S
NEARLY_FULL = 0.9
FULL = 0.98


def hours_until_full(facts: Facts) -> Iterator[Finding]:
    for stream in facts.streams:
        yield _check_room(stream, is_cleaned=stream.spec.name == facts.cleaned_stream)


def bytes_per_second(stream: StreamFacts) -> float | None:
    """The present rate of incoming bytes; None if the history is too short."""
    if stream.last_at is None or not stream.messages:
        return _bytes_held_per_second(stream)
    begin, begin_at = stream.recent_sequence, stream.recent_at
    if begin is None or begin_at is None or stream.last_at - begin_at < HISTORY_S:
        return _bytes_held_per_second(stream)
    return (
        stream.size / stream.messages * (stream.last_sequence - begin) / (stream.last_at - begin_at)
    )


def _bytes_held_per_second(stream: StreamFacts) -> float | None:
    if (
        stream.first_at is None
        or stream.last_at is None
        or stream.last_at - stream.first_at < HISTORY_S
    ):
        return None
    return stream.size / (stream.last_at - stream.first_at)


def seconds_until_full(stream: StreamFacts) -> float | None:
    """Seconds at the present rate; None if it never fills, or the history is too short."""
    rate = bytes_per_second(stream)
    if (
        stream.max_bytes <= 0
        or not rate
        or (stream.max_age and rate * stream.max_age <= stream.max_bytes)
    ):
        return None
    return max(0.0, stream.max_bytes - stream.size) / rate


def _check_room(stream: StreamFacts, *, is_cleaned: bool) -> Finding:
    check, rate = f"room in {stream.spec.name}", bytes_per_second(stream)
    if stream.max_bytes <= 0:
        return ok(
            check,
            "no limit but the disk's"
            + (f", {size(rate * DAY_S)} a day at this rate" if rate else ""),
        )
    filled, left = (
        stream.size / stream.max_bytes,
        None if is_cleaned else seconds_until_full(stream),
    )
    found = f"{share(filled)} full{_describe_duration(stream, rate, is_cleaned=is_cleaned)}"
    if left is not None:
        found += f", full in {span(left)}"
    remedy = f"raise its max_bytes, or remove messages: a full stream {_consequence(stream)}"
    if filled >= FULL and stream.discard == "new":
        return fail(check, found, remedy)
    if filled >= NEARLY_FULL or (left is not None and left < SOON_S):
        return warn(check, found, remedy)
    return ok(check, found)


def _describe_duration(stream: StreamFacts, rate: float | None, *, is_cleaned: bool) -> str:
    """How long it lasts at this rate, from empty to full, or to its age limit."""
    if not rate:
        return ""
    seconds = stream.max_bytes / rate
    if is_cleaned:
        return f", holds {span(seconds)} of messages at this rate; finished ones are removed"
    if stream.max_age and seconds >= stream.max_age:
        return f", holds all {span(stream.max_age)} that it keeps at this rate"
    return f", lasts {span(seconds)} at this rate"


def _consequence(stream: StreamFacts) -> str:
    return (
        "refuses new messages"
        if stream.discard == "new"
        else "drops its oldest messages, read or not"
    )
