"""Delivery: the only room that consumes JetStream. It moves messages and never reads their content.

    wire      sockets, frames, the connection; what the server's API answers; calls of services
    publish   effects of many messages at once, and their publish acks
    consume   a durable: what is pulled, begun, settled and acked
    replies   who asked, and how an answer gets there
    kv        documents in buckets that many instances share

Each imports those above it alone; `consume` and `kv` do not import each other.
"""
