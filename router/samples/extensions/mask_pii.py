"""A post-processor: says of a decision which personal data its message holds.

It sees the decision and may add to its metadata; the router takes nothing else from it. Its own answer has the masked payload.
"""

from __future__ import annotations

from router.extension import Answer, Request, post
from router.samples.extensions.normalize_text import in_texts
from router.samples.extensions.pii_guard import PATTERNS, is_meant


@post("mask_pii")
def mask_pii(request: Request) -> Answer:
    """Adds `pii_masked`: the kinds that were found, or `none`."""
    found: set[str] = set()
    masked = in_texts(request.payload, lambda text: _masked(text, found))
    return Answer(payload=masked, metadata={"pii_masked": ",".join(sorted(found)) or "none"})


def _masked(text: str, found: set[str]) -> str:
    for name in PATTERNS:
        masked = _without(name, text)
        if masked != text:
            found.add(name)
        text = masked
    return text


def _without(name: str, text: str) -> str:
    return PATTERNS[name].sub(lambda match: f"[{name}]" if is_meant(name, match[0]) else match[0], text)
