"""`router serve` and `router tree`."""
