"""`router doctor`: is the broker fit for the router, and if not, what should the operator do?

facts     streams, consumers and the server as plain values, and what is found of them
collect   reads them from JetStream, and what only a server itself tells
checks    facts -> findings, pure; one function for each question; those of consumers and of
          partitions
storage   checks of streams' limits, and of what they reserve together
cluster   checks of servers
"""

from router.operate.doctor.checks import examine
from router.operate.doctor.collect import collect
from router.operate.doctor.facts import (
    ConsumerFacts,
    Facts,
    Finding,
    Follower,
    Origin,
    PartitionFacts,
    RaftGroup,
    ServerFacts,
    ServerStorage,
    StreamFacts,
    SyncMode,
    Verdict,
    ViolationFacts,
)
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
