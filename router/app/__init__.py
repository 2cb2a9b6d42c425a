"""Where every room is known: settings become values, rooms are joined, the supervision tree is drawn.

connect, connections           settings -> connections
declared_topology              settings -> streams, consumers, buckets
app_context                    the objects that all consumers of a process share
subscriptions                  every subscription of the router, joined with its handler (`joined_subscription`, `decide_subscription`)
consumer_child                 a consumer as a child of the tree
admin, admin_stores, admin_views, decision_lookup    the operators' services, and what they read
ingress_server, ingress_handler    messages of `beamline.ingress.v1.message`, and their acks
supervision_tree               which children there are, and in which order
service                        the whole router: its start, its state, its end
handler_metrics, consumer_metrics, violations, alerts    what rooms report -> metrics, logs, alerts

The service, and with it every room, is imported at its first use: a caller that only needs a connection does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.app.connect import connect_by
from router.app.declared_topology import declare_topology

if TYPE_CHECKING:
    from router.app.service import Ready, RouterService

__all__ = ["Ready", "RouterService", "connect_by", "declare_topology"]


def __getattr__(name: str) -> object:
    if name in ("Ready", "RouterService"):
        from router.app import service

        return getattr(service, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
