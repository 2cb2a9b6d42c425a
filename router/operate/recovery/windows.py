"""How long a stream of effects must know the ids of its messages, once the durables before it may
hand messages out again.

A message that is handled again publishes the effects that it published before, with the same ids.
Its stream drops them while it knows the ids. A server reads them from the stored messages when it
starts, as far back as the stream's duplicate window reaches *then*; it reads none when a snapshot
is restored or a mirror is promoted, and none when the window is widened (nats-server 2.15.1). So
the window is widened first, and the servers are started again after that.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from router.delivery.wire.api import Json
from router.delivery.wire.topology import NANOS_PER_S, WIDENED_WINDOW

SLACK = timedelta(hours=1)  # for the restart, and for what waits to be handled again


def widen(config: Json, since: datetime, now: datetime) -> Json:
    """The configuration, marked, with a window from one declared window before `since` to an hour
    from now; at most `max_age`.
    """
    declared = int(config.get("duplicate_window") or 0)
    needed = declared + int((now - since + SLACK).total_seconds()) * NANOS_PER_S
    metadata = {
        **(config.get("metadata") or {}),
        WIDENED_WINDOW: since.isoformat(timespec="seconds"),
    }
    return {
        **config,
        "duplicate_window": min(needed, config.get("max_age") or needed),
        "metadata": metadata,
    }
