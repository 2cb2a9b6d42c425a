"""The page for extensions in any language: the JSON that it shows is the JSON that the router
writes and reads.
"""

import json
import re
from pathlib import Path
from typing import Any

from router.contracts.decision import RouteRequest
from router.contracts.extension import read_processor_answer, read_request, read_validator_answer
from router.contracts.provider_call import call_bytes, read_answer, read_piece
from router.contracts.provider_request import ProviderRequest
from router.contracts.raw_json import RawJson
from router.extensions.model.stage import PipelineContext

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "extension-json.md").read_text()
BLOCKS = re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)
REQUEST, CHANGED, VERDICT, INVOCATION, ANSWER, CHUNK = (json.loads(block) for block in BLOCKS)


def bytes_of(block: object) -> bytes:
    return json.dumps(block).encode()


def test_the_request_is_the_one_that_the_router_sends() -> None:
    message: dict[str, Any] = REQUEST["payload"]
    request = RouteRequest(
        tenant_id=REQUEST["tenant_id"],
        trace_id=REQUEST["trace_id"],
        message_id=message["message_id"],
        message_type=message["message_type"],
        payload=RawJson.encode(message["payload"]),
        metadata=message["metadata"],
        context={"user": "u-1"},
        request_key="k",
        answer_id="a",
    )
    matter = PipelineContext(request, "default", None)
    assert json.loads(matter.build_request(REQUEST["config"])) == REQUEST
    assert matter.headers == {name: REQUEST[name] for name in ("trace_id", "tenant_id")}
    assert read_request(bytes_of(REQUEST)).message.payload.read() == message["payload"]


def test_the_answers_are_read() -> None:
    changed, judged = (
        read_processor_answer(bytes_of(CHANGED)),
        read_validator_answer(bytes_of(VERDICT)),
    )
    assert (changed.message.payload.read(), changed.metadata) == (
        {"text": "hello"},
        {"normalized": "true"},
    )
    assert (judged.is_ok, judged.reason, judged.details) == (
        False,
        VERDICT["reason"],
        VERDICT["details"],
    )
    assert read_validator_answer(b'{"valid": false}').is_ok is False


def test_a_provider_is_asked_and_read_as_the_page_says() -> None:
    request = ProviderRequest(
        provider_id="echo",
        tenant_id="acme",
        request_id="r",
        trace_id=INVOCATION["trace_id"],
        body=INVOCATION["prompt"],
        parameters=INVOCATION["parameters"],
        metadata=INVOCATION["context"],
    )
    assert json.loads(call_bytes(request, {})) == INVOCATION
    answer = read_answer(bytes_of(ANSWER), "echo")
    assert (answer.body, answer.cost, answer.metadata["completion_tokens"]) == (
        "you said hello",
        0.25,
        "3",
    )
    assert read_piece(bytes_of(CHUNK), "echo").done is False
