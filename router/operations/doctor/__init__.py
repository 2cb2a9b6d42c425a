"""`router doctor`: is the broker fit for the router, and if not, what should the operator do?

facts     streams, consumers and the server as plain values
collect   reads them from the server: the only I/O of this room
checks    facts -> findings, pure; one function for each question
backlog   checks of consumers      capacity   checks of streams' limits      partitions   checks of the decide subject's partitions
"""

from router.operations.doctor.checks import examine
from router.operations.doctor.collect import collect
from router.operations.doctor.collect_partitions import PartitionedSubject
from router.operations.doctor.facts import ConsumerFacts, Facts, PartitionFacts, ServerFacts, StreamFacts, SyncMode
from router.operations.doctor.finding import Finding, Verdict

__all__ = [
    "ConsumerFacts",
    "Facts",
    "Finding",
    "PartitionFacts",
    "PartitionedSubject",
    "ServerFacts",
    "StreamFacts",
    "SyncMode",
    "Verdict",
    "collect",
    "examine",
]
