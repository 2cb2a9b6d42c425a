"""A sample provider that repeats the prompt, word by word if a stream is requested.

parameters: {"prefix": "You said: "}
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from router.sdk.extension import Invocation, Output, Refused, provider


@provider("echo")
async def echo(invocation: Invocation) -> AsyncIterator[str | Output]:
    """Yield the prompt's words, then the usage, which costs nothing."""
    if isinstance(invocation.prompt, bytes):
        raise Refused("the prompt is not text")
    prefix = invocation.parameters.get("prefix") or ""
    words = f"{prefix}{invocation.prompt}".split(" ")
    for place, word in enumerate(words):
        yield word if place == 0 else f" {word}"
    yield Output(
        prompt_tokens=len(invocation.prompt.split()), completion_tokens=len(words), cost=0.0
    )
