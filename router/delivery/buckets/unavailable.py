"""The error for a bucket that is missing or refuses: it is unavailable, never empty, and the text says what to do."""

from __future__ import annotations

from router.core.errors import BrokerRefused, BrokerUnavailable, NotFound
from router.delivery.api import STREAM_NOT_FOUND


def missing_bucket(bucket: str) -> NotFound:
    return NotFound(f"there is no bucket {bucket}: `router topology apply` makes it")


def unavailable_bucket(bucket: str, exc: BrokerRefused) -> BrokerUnavailable:
    """The error that a server's refusal means for the reader of the bucket."""
    return missing_bucket(bucket) if exc.err_code == STREAM_NOT_FOUND else BrokerUnavailable(f"bucket {bucket}: {exc}")
