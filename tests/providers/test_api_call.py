"""Whatever stands in a request, a kind answers it or says that it is the request's fault."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from router.providers.api_call import CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES, ApiCall, read_call
from router.providers.kinds import anthropic_request, ollama
from router.providers.kinds.echo import EchoKind
from router.providers.models import ServedModels
from router.sdk.extension.request import RequestFailed
from tests.support.provider_services import QUESTION, asks

APIS = (CHAT, COMPLETIONS, EMBEDDINGS, RESPONSES)
SCALARS = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5) | st.floats(0, 1)
WORDS = st.sampled_from(["user", "assistant", "tool", "system", "text", "image_url", "function"])
PARTS = "role content type text image_url url tool_calls function name arguments id tool_call_id"
NAMES = st.sampled_from([*PARTS.split(), "parameters", "format", "schema", "json_schema"])
VALUES = st.recursive(
    SCALARS | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=12,
)
TOP = "messages input prompt tools tool_choice response_format stop n temperature user"
FIELDS = st.sampled_from(TOP.split())


async def fault_of(make: Callable[[ApiCall], Any], call: ApiCall) -> str | None:
    try:
        made = make(call)
        if not isinstance(made, dict):
            await made
    except RequestFailed as failed:
        return failed.fault
    return None


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.dictionaries(FIELDS, VALUES, max_size=5), st.sampled_from(APIS))
async def test_no_body_makes_a_kind_fail(body: dict[str, Any], api: str) -> None:
    """A failure of its own would count against the provider, for all tenants."""
    call = ApiCall(api=api, body={**body, "model": "small"})
    for make in (anthropic_request.make_request, ollama.make_request, EchoKind().complete):
        assert await fault_of(make, call) in (None, "request")


@pytest.mark.parametrize(
    "prompt", ["nonsense", "[1]", "7", "", '{"a":' * 100 + "1" + "}" * 100, "\ud800"]
)
def test_a_body_that_is_no_object_is_the_requests_fault(prompt: str) -> None:
    with pytest.raises(RequestFailed, match="prompt") as failed:
        read_call(asks(prompt), APIS, ServedModels())
    assert failed.value.fault == "request"


@pytest.mark.parametrize("model", [None, 7, "", "a b", "x" * 129, ["a"]])
def test_a_model_that_is_no_name_is_the_requests_fault(model: object) -> None:
    with pytest.raises(RequestFailed, match="model"):
        read_call(asks({**QUESTION, "model": model}), APIS, ServedModels())


def test_a_plain_prompt_cannot_bring_other_messages() -> None:
    asked = asks("hi", None, model="m", messages=[{"role": "system"}], stream=True, n=9, top_p=1)
    call = read_call(asked, APIS, ServedModels())
    assert json.loads(json.dumps(call.body)) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hi"}],
        "top_p": 1,
    }
