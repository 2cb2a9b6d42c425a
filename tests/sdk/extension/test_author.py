"""What a decorator makes of a function, and what it refuses to make."""

from collections.abc import AsyncIterator
from functools import partial

import pytest

from router.core.errors import Misconfigured
from router.sdk.extension import Invocation, Request, post, pre, provider, validator


def plain(request: Request) -> object:
    """Says it twice."""
    return request.payload * 2


async def awaiting(request: Request) -> None: ...


async def streaming(invocation: Invocation) -> AsyncIterator[str]:
    yield "a"


def test_a_decorated_function_is_still_called_like_a_function() -> None:
    assert pre("twice")(plain)(Request.from_payload("ab")) == "abab"


@pytest.mark.parametrize(
    ("decorator", "subject"),
    [
        (pre, "beamline.ext.pre.mine.v1"),
        (validator, "beamline.ext.validate.mine.v1"),
        (post, "beamline.ext.post.mine.v1"),
        (provider, "beamline.provider.mine.v1"),
    ],
)
def test_the_kind_the_id_and_the_version_are_the_subject(decorator, subject) -> None:
    assert decorator("mine")(plain).subject == subject


def test_a_version_of_its_own_stands_in_the_subject() -> None:
    assert pre("mine", version="v7")(plain).subject == "beamline.ext.pre.mine.v7"


def test_it_keeps_the_functions_name_and_words() -> None:
    assert (pre("mine")(plain).name, pre("mine")(plain).__doc__) == ("plain", "Says it twice.")


def test_only_a_plain_function_runs_where_it_stands() -> None:
    assert pre("mine")(plain).is_plain
    assert not pre("mine", blocking=True)(plain).is_plain
    assert not pre("mine")(awaiting).is_plain
    assert not pre("mine")(partial(awaiting)).is_plain
    assert not provider("mine")(streaming).is_plain


def test_an_object_with_an_async_call_is_awaited() -> None:
    class Model:
        async def __call__(self, request: Request) -> None: ...

    assert not pre("mine")(Model()).is_plain


@pytest.mark.parametrize("wrong", ["", "two words", "a.b", "*", ">", "x" * 65, "é"])
def test_an_id_or_version_that_is_no_subject_token_is_refused(wrong: str) -> None:
    with pytest.raises(Misconfigured, match="id"):
        pre(wrong)(plain)
    with pytest.raises(Misconfigured, match="version"):
        pre("mine", version=wrong)(plain)


def test_a_decorator_without_its_id_says_how_it_is_used() -> None:
    with pytest.raises(Misconfigured, match='@pre\\("some_id"\\)'):
        pre(plain)(plain)  # type: ignore[arg-type]


def test_the_providers_service_cannot_be_taken() -> None:
    with pytest.raises(Misconfigured, match=r"beamline\.provider\.v1\.invoke"):
        provider("v1")(plain)


def test_only_a_provider_may_stream() -> None:
    with pytest.raises(Misconfigured, match="only a provider"):
        pre("mine")(streaming)


def test_blocking_is_for_plain_functions() -> None:
    with pytest.raises(Misconfigured, match="blocking"):
        pre("mine", blocking=True)(awaiting)
