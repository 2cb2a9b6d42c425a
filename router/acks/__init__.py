"""Workers' acknowledgements of assignments: read, correlated, shown on the assignment. It only decides; `acks.enabled` switches it on."""

from router.acks.handler import AckRules, AcksHandler, AcksMeter, AlertSink, AssignmentStates

__all__ = ["AckRules", "AcksHandler", "AcksMeter", "AlertSink", "AssignmentStates"]
