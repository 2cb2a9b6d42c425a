"""`router doctor`: is the broker fit for the router, and if not, what should the operator do?

facts     streams, consumers and the server as plain values
collect   reads them from JetStream, and what only a server itself tells
checks    facts -> findings, pure; one function for each question; those of consumers and of
          partitions
capacity  checks of streams' limits
cluster   checks of servers        storage    checks of what the streams reserve together
"""

from router.operate.doctor.checks import examine
from router.operate.doctor.collect import collect
from router.operate.doctor.facts import (
    ConsumerFacts,
    Facts,
    Follower,
    Origin,
    PartitionFacts,
    RaftGroup,
    ServerFacts,
    ServerStorage,
    StreamFacts,
    SyncMode,
    ViolationFacts,
)
from router.operate.doctor.finding import Finding, Verdict
from router.operate.doctor.storage import describe_need, find_shortages

__all__ = [
    "ConsumerFacts",
    "Facts",
    "Finding",
    "Follower",
    "Origin",
    "PartitionFacts",
    "RaftGroup",
    "ServerFacts",
    "ServerStorage",
    "StreamFacts",
    "SyncMode",
    "Verdict",
    "ViolationFacts",
    "collect",
    "describe_need",
    "examine",
    "find_shortages",
]
