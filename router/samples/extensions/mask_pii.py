"""A post-processor: says of a decision which kinds of personal data its assignment carries.

A post-processor sees the decision and may add to its metadata; the router takes nothing else from it. So this one finds, and masks
nothing: `mask_payload` masks, before the decision. The id is the one that the specification names.
"""

from __future__ import annotations

from router.extension import Request, post
from router.samples.extensions.pii_guard import kinds_in


@post("mask_pii")
def mask_pii(request: Request) -> dict[str, str]:
    """Adds `pii_found`: the kinds in the payload and in the message's metadata, or `none`."""
    kinds = kinds_in([request.payload, request.message.metadata])
    return {"pii_found": ",".join(sorted(kinds)) or "none"}
