"""`router decide`, `decisions` and `request`."""
