"""Workers: which are alive, by their heartbeats. Pure rules; the app listens and raises alerts."""

from router.workers.liveness import Change, Condition, Liveness, Worker, condition_of

__all__ = ["Change", "Condition", "Liveness", "Worker", "condition_of"]
