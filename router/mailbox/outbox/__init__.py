"""The outbox: the relay publishes what a service commits, in the order of its aggregate.

add, message                                  add an event in the service's own transaction; its
                                              form on the wire
repository, relay_batch, publisher, config    rows claimed, published, marked; the polling worker
                                              and its options
nats_publisher                                pages stored in order
broker_loss, integrity_scan, publisher        acked events that the broker lost: found, and
                                              published again
retention, failed_rows                        old rows deleted; rows that an operator mends
"""
