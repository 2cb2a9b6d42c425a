"""Where every room is known: settings become values, rooms are joined, the supervision tree is drawn.

declared   settings -> streams, consumers, buckets
connect    settings -> a connection
meters     what rooms tell -> metrics and logs
service    the whole router, as one supervision tree
"""

from router.app.connect import connect_by
from router.app.declared import declared
from router.app.service import Ready, RouterService

__all__ = ["Ready", "RouterService", "connect_by", "declared"]
