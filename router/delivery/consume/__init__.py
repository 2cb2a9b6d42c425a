"""How messages are pulled, handled and settled."""
