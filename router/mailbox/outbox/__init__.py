"""The outbox: what a service commits is published, in the order of its aggregate.

add, message                          an event added in the service's own transaction; how it travels
repository, round, publisher, config  rows claimed, published, marked; the worker that goes round, and how
nats_publisher                        pages stored in order
lost, watch, retention, parked        what the broker lost is published again; what leaves; what an operator mends
"""
