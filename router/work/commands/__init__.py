"""`router assignments`, `worker`, `workers` and `provider`."""
