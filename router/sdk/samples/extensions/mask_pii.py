"""A post-processor: it adds to a decision which kinds of personal data its assignment carries.

A post-processor sees the decision and may add to its metadata; the router takes nothing else from
it. So this one finds personal data and masks none: `mask_payload` masks, before the decision. The
specification names its id.
"""

from __future__ import annotations

from router.sdk.extension import Request, post
from router.sdk.samples.extensions.pii_guard import find_kinds


@post("mask_pii")
def mask_pii(request: Request) -> dict[str, str]:
    """Add `pii_found`: the kinds in the payload and in the message's metadata, or `none`."""
    kinds = find_kinds([request.payload, request.message.metadata])
    return {"pii_found": ",".join(sorted(kinds)) or "none"}
