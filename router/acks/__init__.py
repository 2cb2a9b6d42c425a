"""Acknowledgements of workers: read, correlated, made visible. Meaning only; consumed when `ack_enabled` says so."""

from router.acks.handler import AckRules, AcksHandler, AcksMeter, Alerts, AssignmentStates

__all__ = ["AckRules", "AcksHandler", "AcksMeter", "Alerts", "AssignmentStates"]
