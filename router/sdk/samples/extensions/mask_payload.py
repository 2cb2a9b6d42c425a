"""A pre-processor: it masks e-mail addresses, card numbers and American social security numbers
before an assignment is made.

config: {"allow": ["email"]}

It changes the payload and the message's metadata, which are all of a request's texts that an
assignment carries. Use it with `"mode": "required"`: if an optional one fails, the request
continues unchanged. The stored request is not changed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection

from router.sdk.extension import Refused, Request, Response, pre
from router.sdk.samples.extensions.pii_guard import PATTERNS, is_real_match


@pre("mask_payload")
def mask_payload(request: Request) -> Response:
    """Add `pii_masked` to the context: the masked kinds, or `none`. Refuse a payload that it cannot
    read.
    """
    if isinstance(request.payload, bytes) or request.message.payload_ref is not None:
        raise Refused("the payload is not text, or stands elsewhere: it cannot be masked here")
    kinds: set[str] = set()
    allowed = request.config.get("allow") or ()
    change = _make_mask(allowed if isinstance(allowed, list | tuple) else (), kinds)
    payload = _mask(request.payload, change)
    metadata = _mask_object(request.message.metadata or {}, change)
    if metadata.keys() != (request.message.metadata or {}).keys():
        raise Refused(
            "a key of the message's metadata holds personal data, and keys that are there "
            "stay there"
        )
    return Response(
        payload=payload,
        message_metadata=metadata,
        metadata={"pii_masked": ",".join(sorted(kinds)) or "none"},
    )


def _make_mask(allowed: Collection[object], kinds: set[str]) -> Callable[[str], str]:
    """Return a function that masks one text and adds to `kinds` what it masked."""

    def mask(text: str) -> str:
        for kind in PATTERNS:
            if kind not in allowed and (masked := _mask_kind(kind, text)) != text:
                kinds.add(kind)
                text = masked
        return text

    return mask


def _mask_kind(kind: str, text: str) -> str:
    def replace(match: re.Match[str]) -> str:
        return f"[{kind}]" if is_real_match(kind, match[0]) else match[0]

    return PATTERNS[kind].sub(replace, text)


def _mask(value: object, change: Callable[[str], str]) -> object:
    """Return `value` with every text inside it changed, also keys of objects."""
    match value:
        case str():
            return change(value)
        case list():
            return [_mask(part, change) for part in value]
        case dict():
            return _mask_object(value, change)
    return value


def _mask_object(value: dict[str, object], change: Callable[[str], str]) -> dict[str, object]:
    masked = {change(name): _mask(part, change) for name, part in value.items()}
    if len(masked) < len(value):
        raise Refused("two keys of an object would be the same once they are masked")
    return masked
