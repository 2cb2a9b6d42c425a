"""`router dlq`: dead letters: list, show, replay, export, discard."""
