"""A program that takes its streams for dear ones, so that its effects go in batches.

`python -m tests.support.batching_process MODULE ARGUMENT …`
"""

import runpy
import sys

from router.delivery.consume import consumer
from router.delivery.kv import record_creator
from tests.support.publish_costs import AlwaysBatching

if __name__ == "__main__":
    consumer.BatchingPublisher = AlwaysBatching
    record_creator.BatchingPublisher = AlwaysBatching
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
