"""Is this broker fit for the router, and what should be done about it?

facts    what was seen, as plain values
collect  asking the server for them: the only I/O in here
checks   facts -> findings: pure, one function for each question
"""

from router.doctor.checks import examine
from router.doctor.collect import collect
from router.doctor.facts import ConsumerFacts, Facts, ServerFacts, StreamFacts, SyncMode
from router.doctor.finding import Finding, Verdict

__all__ = ["ConsumerFacts", "Facts", "Finding", "ServerFacts", "StreamFacts", "SyncMode", "Verdict", "collect", "examine"]
