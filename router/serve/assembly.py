"""Assembly: settings become objects, the objects of all rooms are connected, the supervision tree
is drawn. It decides nothing itself.

connect, connections           settings -> connections
declared_topology              settings -> streams, consumers, buckets
audit_log                      who writes, and where the events of it are stored
recovery_order                 in which order those streams are copied
app_context                    the objects that all consumers of a process share
subscriptions                  every subscription of the router, joined with its handler
                               (`joined_subscription`, `decide_subscription`)
consumer_child                 a consumer as a child of the tree
admin, request_servers         the operators' services; the servers of providers and of the ingress
supervision_tree               which children there are, and in which order
service                        the whole router: its start, its state, its end
mailbox, inbox                 an outbox relay and an inbox as processes
bus                            the settings of the bus

The service, and with it every room, is imported at its first use: a caller that only needs a
connection does not pay for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.config.connect import connect_by
from router.operate.topology.declared_topology import declare_topology

if TYPE_CHECKING:
    from router.serve.service import Ready, RouterService

__all__ = ["Ready", "RouterService", "connect_by", "declare_topology"]


def __getattr__(name: str) -> object:
    if name in ("Ready", "RouterService"):
        from router.serve import service

        return getattr(service, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
