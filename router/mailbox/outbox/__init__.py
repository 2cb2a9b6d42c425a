"""The outbox: the relay publishes what a service commits, in the order of its aggregate.

add                                           add an event in the service's own transaction; its
                                              form on the wire
repository, relay_batch, publisher            rows claimed, published, marked; the polling worker
                                              and its options
nats_publisher                                pages stored in order
broker_loss, integrity_scan                   acked events that the broker lost: found, and
                                              published again
repository                                    old rows deleted; rows that an operator mends
"""
