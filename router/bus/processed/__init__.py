"""Which messages a consumer has processed (docs/reference/requirements.md#sr-23): the port, and
where the keys may be kept.

    port      what a consumer asks of it; and this process' memory, for tests and for handlers that
              may run twice
    sqlite    a file: the mark and what the handler writes are one transaction, so its effect
              happens once
    bucket    a key-value bucket: shared by every process of a durable

`tests/bus/test_processed.py` holds all of them to one suite.
"""

from __future__ import annotations

from router.bus.processed.bucket import BucketProcessed
from router.bus.processed.port import MemoryProcessed, Processed, StoreUnavailable, Write
from router.bus.processed.sqlite import SqliteProcessed

__all__ = [
    "BucketProcessed",
    "MemoryProcessed",
    "Processed",
    "SqliteProcessed",
    "StoreUnavailable",
    "Write",
]
