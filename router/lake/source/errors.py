"""Errors of a stream that is read by ranges."""

from __future__ import annotations

from router.core.errors import RouterError, Transient


class DataLoss(RouterError):
    """Messages of the range are gone, or the stream was recreated. `failOnDataLoss=false` continues
    without them.
    """

    code = "data_loss"


class Interrupted(Transient):
    """The consumer ended before its range was read: deleted, or cut off. The caller continues with
    another one.
    """

    code = "interrupted"
