"""Events by buckets of their identities: silver lies in buckets, and a bucket is deduplicated by
itself.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

BUCKETS = 8  # of silver, for ever: an identity's bucket never changes


def find_identity_buckets(events: pa.Table | pa.RecordBatch) -> pa.ChunkedArray:
    """Return the bucket of each event. Identities are hashes, so buckets are even."""
    return pc.bit_wise_and(events["id_high"], BUCKETS - 1)
