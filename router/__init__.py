"""Router: a durable message router on NATS JetStream."""

__version__ = "0.1.0"
