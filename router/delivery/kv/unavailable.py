"""The error for a bucket that is missing or refuses: it is unavailable, never empty, and the text
says what to do.
"""

from __future__ import annotations

from router.core.errors import BrokerRefused, BrokerUnavailable, NotFound, StorageRefused
from router.delivery.wire.api import STREAM_NOT_FOUND
from router.delivery.wire.publish_faults import PublishFault, find_fault


def missing_bucket(bucket: str) -> NotFound:
    return NotFound(f"there is no bucket {bucket}: `router topology apply` makes it")


def unavailable_bucket(bucket: str, exc: BrokerRefused) -> BrokerUnavailable:
    """The error that a server's refusal means for the reader of the bucket."""
    if exc.err_code == STREAM_NOT_FOUND:
        return missing_bucket(bucket)
    refuses = (
        StorageRefused if find_fault(exc.err_code) is PublishFault.STREAM else BrokerUnavailable
    )
    return refuses(f"bucket {bucket}: {exc}")
