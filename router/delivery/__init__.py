"""Delivery: the only room that consumes JetStream. It moves messages and never reads their content.

A `subscription` says what to consume and `consumer` does it; `api` and `topology` call the server's API, `connection` sends and receives.
"""
