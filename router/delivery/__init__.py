"""Delivery: the only room that consumes JetStream. It moves messages and never knows what they say.

`subscription` is what it is handed, `consumer` drives one, `api` and `topology` speak to the server, `connection` is the wire.
"""
