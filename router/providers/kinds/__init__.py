"""The APIs that are spoken, a file for each. What each of them is to the service stands here."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from typing import Any, Protocol

from msgspec import Struct

from router.providers.api_call import ApiCall
from router.sdk.extension import Output, Usage

Json = dict[str, Any]


class ApiEvent(Struct, frozen=True):
    """One event of a stream, in OpenAI's shape."""

    fields: Json


Piece = ApiEvent | Usage | Output


class ProviderKind(Protocol):
    """`apis`: which it can answer. Both methods raise what an extension may raise."""

    apis: tuple[str, ...]

    async def list_models(self) -> tuple[str, ...]:
        """The models that the API names; none where it does not say."""
        ...

    async def complete(self, call: ApiCall) -> Output:
        """The whole answer: an object in OpenAI's shape."""
        ...

    def stream(self, call: ApiCall) -> AsyncGenerator[Piece, None]:
        """Its events as they come, `Usage` as soon as it is known, and an `Output` as the last. No
        embeddings: they are answered whole.
        """
        ...


def describe_answer(**facts: object) -> Mapping[str, object]:
    """Metadata of an answer, with what is known alone."""
    return {name: value for name, value in facts.items() if value is not None}
