"""A program that takes its streams for dear ones, so that its effects go in batches.

`python -m tests.support.batching_process MODULE ARGUMENT …`
"""

import runpy
import sys
from functools import partial

from router.delivery.consume import consumer
from router.delivery.publish.batching_publisher import BatchingPublisher
from tests.support.publish_costs import dear

if __name__ == "__main__":
    consumer.BatchingPublisher = partial(BatchingPublisher, make_costs=dear)
    del sys.argv[0]
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
