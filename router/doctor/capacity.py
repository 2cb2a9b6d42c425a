"""How long does a stream last, and when is it full? From its rate: that of its newest tenth, or of all it holds.

A full stream that discards new messages refuses them, and what must be stored in it waits. One that discards old ones loses the
oldest, read or not. A stream whose age limit frees space faster than it fills is never full; nor is one whose messages leave it
when they are done, as long as workers settle them.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.doctor.facts import Facts, StreamFacts
from router.doctor.finding import Finding, fail, ok, warn
from router.doctor.words import share, size, span

HISTORY_S = 60.0  # a rate from less than a minute says nothing
DAY_S = 24 * 3600.0
SOON_S = DAY_S
NEARLY = 0.9
FULL = 0.98


def hours_until_full(facts: Facts) -> Iterator[Finding]:
    for stream in facts.streams:
        yield _until_full(stream, is_swept=stream.spec.name == facts.swept)


def bytes_per_second(stream: StreamFacts) -> float | None:
    """What comes in at present; None: too little history to say."""
    if stream.last_at is None or not stream.messages:
        return _bytes_held_per_second(stream)
    begin, begun_at = stream.recent_sequence, stream.recent_at
    if begin is None or begun_at is None or stream.last_at - begun_at < HISTORY_S:
        return _bytes_held_per_second(stream)
    return stream.size / stream.messages * (stream.last_sequence - begin) / (stream.last_at - begun_at)


def _bytes_held_per_second(stream: StreamFacts) -> float | None:
    if stream.first_at is None or stream.last_at is None or stream.last_at - stream.first_at < HISTORY_S:
        return None
    return stream.size / (stream.last_at - stream.first_at)


def seconds_until_full(stream: StreamFacts) -> float | None:
    """Seconds at the present rate; None: never, or too little history to say."""
    rate = bytes_per_second(stream)
    if stream.max_bytes <= 0 or not rate or (stream.max_age and rate * stream.max_age <= stream.max_bytes):
        return None
    return max(0.0, stream.max_bytes - stream.size) / rate


def _until_full(stream: StreamFacts, *, is_swept: bool) -> Finding:
    check, rate = f"room in {stream.spec.name}", bytes_per_second(stream)
    if stream.max_bytes <= 0:
        return ok(check, "no limit but the disk's" + (f", {size(rate * DAY_S)} a day at this rate" if rate else ""))
    filled, left = stream.size / stream.max_bytes, None if is_swept else seconds_until_full(stream)
    found = f"{share(filled)} full{_lasts(stream, rate, is_swept=is_swept)}" + (f", full in {span(left)}" if left is not None else "")
    remedy = f"raise its max_bytes, or take what it holds: a full stream {_consequence(stream)}"
    if filled >= FULL and stream.discard == "new":
        return fail(check, found, remedy)
    if filled >= NEARLY or (left is not None and left < SOON_S):
        return warn(check, found, remedy)
    return ok(check, found)


def _lasts(stream: StreamFacts, rate: float | None, *, is_swept: bool) -> str:
    """What it holds at this rate, from empty to full, or to the age at which messages leave it."""
    if not rate:
        return ""
    seconds = stream.max_bytes / rate
    if is_swept:
        return f", holds {span(seconds)} of what comes in at this rate, and what is done leaves it"
    if stream.max_age and seconds >= stream.max_age:
        return f", holds all {span(stream.max_age)} that it keeps at this rate"
    return f", lasts {span(seconds)} at this rate"


def _consequence(stream: StreamFacts) -> str:
    return "refuses new messages" if stream.discard == "new" else "drops its oldest messages, read or not"
