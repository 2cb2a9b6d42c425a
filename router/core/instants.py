"""Moments as operators write them: `10m`, `2h`, `7d` ago, or an ISO time; and as messages hold
them.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}


def read_instant(text: str) -> datetime:
    """The moment, in UTC. Raises ValueError for what is neither."""
    try:
        if ago := re.fullmatch(r"([0-9]{1,6})([smhd])", text):
            return datetime.now(UTC) - timedelta(**{_UNITS[ago[2]]: int(ago[1])})
        return datetime.fromisoformat(text).astimezone(UTC)
    except (ValueError, OverflowError):  # 999999d is before the year 1
        raise ValueError(f"{text!r} is neither like 10m, 2h, 7d nor an ISO time") from None


def format_moment(at_ms: int) -> str:
    """A time in milliseconds since the epoch as ISO 8601, UTC, with its milliseconds."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC).replace(microsecond=at_ms % 1000 * 1000)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def format_day(at_ms: int) -> str:
    """The day of a time in milliseconds since the epoch, UTC."""
    return f"{datetime.fromtimestamp(at_ms / 1000, UTC):%Y-%m-%d}"
