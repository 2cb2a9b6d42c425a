"""Time: the port by which code that decides reads it, moments as operators write them, and the
pauses before another attempt.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta

Clock = Callable[[], float]

wall: Clock = time.time  # seconds since the epoch: for stored times
steady: Clock = time.monotonic  # seconds since an arbitrary start: for durations


def now_ms() -> int:
    """Milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


# -- Moments as operators write them: `10m`, `2h`, `7d` ago or ahead, or an ISO time; and as
# messages hold them.


_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_instant(text: str) -> datetime:
    """The moment, in UTC. Raises ValueError for what is neither."""
    return _read_moment(text, -1)


def read_end(text: str) -> datetime:
    """The moment ahead, in UTC: `30d` from now, or an ISO time. Raises ValueError for what is
    neither.
    """
    return _read_moment(text, 1)


def _read_moment(text: str, direction: int) -> datetime:
    try:
        if span := re.fullmatch(r"([0-9]{1,6})([smhd])", text):
            return datetime.now(UTC) + direction * timedelta(**{_UNITS[span[2]]: int(span[1])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # 999999d is before the year 1
        raise ValueError(f"{text!r} is neither like 10m, 2h, 7d nor an ISO time") from None


def format_moment(at_ms: int) -> str:
    """A time in milliseconds since the epoch as ISO 8601, UTC, with its milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_second(at_s: int) -> str:
    """A time in seconds since the epoch as ISO 8601, UTC."""
    return datetime.fromtimestamp(at_s, UTC).isoformat().replace("+00:00", "Z")


def format_day(at_ms: int) -> str:
    """The day of a time in milliseconds since the epoch, UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"


# -- How long to wait before the next attempt: a schedule of seconds whose last step repeats. And
# intervals with a random part.


def delay_after(attempt: int, schedule: Sequence[float]) -> float:
    """Seconds to wait after the `attempt`-th start, counted from 1 (1, 2, 4, 4 …:
    docs/reference/contracts.md#consumers).
    """
    return schedule[min(attempt, len(schedule)) - 1]


def spread(seconds: float) -> float:
    """A quarter more or less, at random: so that what many instances do at this interval does not
    fall together.
    """
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311 - no secret
