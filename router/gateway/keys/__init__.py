"""API keys of the gateway: which tenant asks, and what a request by this key may name."""
