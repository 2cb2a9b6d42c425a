"""What can be wrong with a stream that is read by ranges."""

from __future__ import annotations

from router.errors import RouterError, Transient


class DataLoss(RouterError):
    """Messages that were to be read are gone, or the stream is another one. `failOnDataLoss=false` goes on without them."""

    code = "data_loss"


class Interrupted(Transient):
    """A consumer that will say no more before its range is read: gone, or cut off. Another one goes on."""

    code = "interrupted"
