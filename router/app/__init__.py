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
"""

from router.app.connect import connect_by
from router.app.declared import declared
from router.app.service import Ready, RouterService

__all__ = ["Ready", "RouterService", "connect_by", "declared"]
