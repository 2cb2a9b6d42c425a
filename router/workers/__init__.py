"""Workers: who is alive, by their heartbeats. A pure rule; who listens, and who is told, is the app's."""

from router.workers.liveness import Change, Condition, Liveness, Worker, condition_of

__all__ = ["Change", "Condition", "Liveness", "Worker", "condition_of"]
