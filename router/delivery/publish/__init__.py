"""How messages are published, and their publish acks awaited."""
