"""When is a stream full? From its rate so far: bytes held over the time they came in.

A full stream that discards new messages refuses them, and the router pauses. One that discards old ones loses the
oldest, read or not. A stream whose age limit frees space faster than it fills is never full.
"""

from __future__ import annotations

from collections.abc import Iterator

from router.doctor.facts import Facts, StreamFacts
from router.doctor.finding import Finding, fail, ok, warn
from router.doctor.words import share, span

HISTORY_S = 60.0  # a rate from less than a minute says nothing
SOON_S = 24 * 3600.0
NEARLY = 0.9
FULL = 0.98


def hours_until_full(facts: Facts) -> Iterator[Finding]:
    for stream in facts.streams:
        yield _until_full(stream)


def seconds_until_full(stream: StreamFacts) -> float | None:
    """Seconds at the present rate; None: never, or too little history to say."""
    if stream.max_bytes <= 0 or stream.first_at is None or stream.last_at is None:
        return None
    history = stream.last_at - stream.first_at
    if history < HISTORY_S:
        return None
    rate = stream.size / history
    if stream.max_age and rate * stream.max_age <= stream.max_bytes:
        return None
    return max(0.0, stream.max_bytes - stream.size) / rate


def _until_full(stream: StreamFacts) -> Finding:
    check = f"room in {stream.spec.name}"
    if stream.max_bytes <= 0:
        return ok(check, "no limit but the disk's")
    filled, left = stream.size / stream.max_bytes, seconds_until_full(stream)
    found = f"{share(filled)} full" + (f", full in {span(left)} at this rate" if left is not None else "")
    remedy = f"raise its max_bytes, or take what it holds: a full stream {_consequence(stream)}"
    if filled >= FULL and stream.discard == "new":
        return fail(check, found, remedy)
    if filled >= NEARLY or (left is not None and left < SOON_S):
        return warn(check, found, remedy)
    return ok(check, found)


def _consequence(stream: StreamFacts) -> str:
    return "refuses new messages" if stream.discard == "new" else "drops its oldest messages, read or not"
