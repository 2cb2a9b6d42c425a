"""`spark.readStream.format("jetstream")`: a JetStream stream as a Spark table, streaming and batch.

    register(spark)
    spark.readStream.format("jetstream").option("url", "nats://127.0.0.1:4222").option("stream", "ROUTER_USAGE").load()

Rows: stream, seq, subject, time, headers, data; exactly one for each message. An offset is a stream sequence together with the
stream's creation time, a partition is a range of sequences, and there is no durable and no acknowledgement: any range can
be read again, by anybody, and gives the same rows. Option names follow Spark's Kafka source (`options`).

    datasource ── reader ── offset           what Spark calls; which ranges there are, and what counts as lost
                     └── fetch ── consumer   one range, whatever happens meanwhile; one consumer, until it says no more
                           └── rows ── places, headers     Arrow batches, made without looking at a message twice
"""

from router.lake.source.datasource import JetStreamDataSource, register
from router.lake.source.errors import DataLoss

__all__ = ["DataLoss", "JetStreamDataSource", "register"]
