"""`spark.readStream.format("jetstream")`: a JetStream stream as a Spark table, streaming and batch.

    register(spark) spark.readStream.format("jetstream").option("url",
    "nats://127.0.0.1:4222").option("stream", "ROUTER_USAGE").load()

Rows: stream, seq, subject, time, headers, data; exactly one for each message. An offset is a stream
sequence together with the stream's creation time, a partition is a range of sequences. There is no
durable and no ack: any process can read any range again and gets the same rows. Option names follow
Spark's Kafka source (`options`).

    reader ── offset           what Spark calls; which ranges there are, and what counts as lost
      └── fetch                one range, whatever fails meanwhile; one ephemeral consumer after the other
            └── rows           headers and Arrow batches, without a look at each message
"""

from router.lake.source.offset import DataLoss
from router.lake.source.reader import JetStreamDataSource, register

__all__ = ["DataLoss", "JetStreamDataSource", "register"]
