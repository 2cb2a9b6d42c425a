"""A pre-processor: it removes superfluous white space, and writes text in lower case if the policy
says so.

config: {"lowercase": true}
"""

from __future__ import annotations

from collections.abc import Callable

from router.sdk.extension import Request, pre


@pre("normalize_text")
def normalize_text(request: Request) -> tuple[object, dict[str, str]]:
    """Leave one space between words and none around them; write lower case if config.lowercase is
    true.
    """
    lowercase = request.config.get("lowercase") is True
    return change_texts(request.payload, lambda text: _normalize(text, lowercase)), {
        "normalized": "true"
    }


def change_texts(payload: object, change: Callable[[str], str]) -> object:
    """Return `payload` with every text inside it changed; keys, numbers and the shape stay."""
    match payload:
        case str():
            return change(payload)
        case list():
            return [change_texts(part, change) for part in payload]
        case dict():
            return {name: change_texts(part, change) for name, part in payload.items()}
    return payload


def _normalize(text: str, lowercase: bool) -> str:
    one_line = " ".join(text.split())
    return one_line.lower() if lowercase else one_line
