"""Workers: which are alive, by their heartbeats. Pure rules; the app listens and raises alerts."""

from router.workers.liveness import Liveness, TrackedWorker, WorkerChange, WorkerCondition, find_condition

__all__ = ["Liveness", "TrackedWorker", "WorkerChange", "WorkerCondition", "find_condition"]
