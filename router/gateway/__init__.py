"""The HTTP gateway: OpenAI's API and the router's own, before the broker."""
