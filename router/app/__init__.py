"""Where every room is known: settings become values, rooms are joined, the supervision tree is drawn.

declared   settings -> streams, consumers, buckets
connect    settings -> a connection
ground     what every lane of one process stands on
*_lane     a lane's meaning, put together: handler, letters, pace
station    a lane as a child of the tree
admin, admin_books, admin_views, decided    the operators' services, and what they ask
ingress, intake    messages that come in, and their receipts
house      the supervision tree
service    the whole router: its start, its state, its end
meters, lane_metrics, violations, alerts    what rooms tell -> metrics, logs, alerts

The service, and with it every room, is loaded when it is first asked for: who only wants a connection does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.app.connect import connect_by
from router.app.declared import declared

if TYPE_CHECKING:
    from router.app.service import Ready, RouterService

__all__ = ["Ready", "RouterService", "connect_by", "declared"]


def __getattr__(name: str) -> object:
    if name in ("Ready", "RouterService"):
        from router.app import service

        return getattr(service, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
