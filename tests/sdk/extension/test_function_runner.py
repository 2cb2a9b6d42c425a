"""One request through an author's function: what is read, what is said, what is refused; without a
broker.
"""

import asyncio
import json
import sys
import threading
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from router.contracts.codec import MAX_PAYLOAD_BYTES
from router.contracts.extension import read_processor_answer, read_validator_answer
from router.sdk.extension import (
    Invocation,
    Output,
    Refused,
    Request,
    Response,
    Usage,
    post,
    pre,
    provider,
    reject,
    validator,
)
from router.sdk.extension.function_runner import FunctionRunner
from router.sdk.extension.request import RequestFailed
from router.sdk.failures import RequestRefused
from tests.support.extension_author import a_prompt, a_request, data_of
from tests.support.sdk import refuse_to_start


def asked(decorated: Any, body: Any = None) -> dict[str, Any]:
    """What an extension answers to one request."""
    data = body if isinstance(body, bytes) else data_of(body or a_request())
    answer: dict[str, Any] = json.loads(FunctionRunner(decorated).run_now(data, {}))
    return answer


def failure(decorated: Any, body: Any = None) -> RequestFailed:
    with pytest.raises(RequestFailed) as caught:
        asked(decorated, body)
    return caught.value


def saying(value: object) -> Callable[[Request], object]:
    return lambda _: value


# -- what a function is given ----------------------------------------------------------------------


def test_a_function_is_given_the_whole_request() -> None:
    seen: list[Request] = []
    asked(pre("mine")(seen.append), a_request({"a": 1}, config={"times": 2}))
    (request,) = seen
    assert (request.tenant_id, request.trace_id, request.message_id, request.message_type) == (
        "acme",
        "t-1",
        "m-1",
        "chat",
    )
    assert (request.payload, request.config, request.metadata) == (
        {"a": 1},
        {"times": 2},
        {"policy_id": "default"},
    )


def test_a_post_processor_sees_the_decision() -> None:
    seen: list[object] = []
    asked(
        post("mine")(lambda request: seen.append(request.decision)),
        a_request(metadata={"decision": {"provider_id": "p"}}),
    )
    assert seen == [{"provider_id": "p"}]


def test_bytes_that_are_not_text_arrive_as_bytes_and_leave_as_base64() -> None:
    body = a_request()
    body["payload"] |= {"payload": "//4=", "payload_encoding": "base64"}
    seen: list[object] = []
    answer = asked(pre("mine")(lambda request: seen.append(request.payload)), body)
    assert seen == [b"\xff\xfe"]
    assert (answer["payload"]["payload"], answer["payload"]["payload_encoding"]) == (
        "//4=",
        "base64",
    )


def test_unknown_fields_are_ignored_and_optional_ones_may_be_missing() -> None:
    assert (
        asked(pre("mine")(saying(None)), {"tenant_id": "acme", "payload": {"payload": 1}, "x": 1})[
            "payload"
        ]["payload"]
        == 1
    )


@pytest.mark.parametrize(
    ("body", "named"),
    [
        (b"", "truncated"),
        (b"[1]", "object"),
        (a_request(payload=1) | {"payload": 7}, "payload"),
        (a_request() | {"payload": {"message_type": "chat"}}, "payload"),
        (a_request() | {"metadata": [1]}, "metadata"),
        (a_request() | {"config": "x"}, "config"),
        (a_request() | {"tenant_id": "_shared"}, "tenant_id"),
        ({name: value for name, value in a_request().items() if name != "tenant_id"}, "tenant_id"),
        (a_request() | {"trace_id": "two words"}, "trace_id"),
    ],
)
def test_a_request_that_is_none_is_declined_with_400_naming_the_field(
    body: object, named: str
) -> None:
    failed = failure(pre("mine")(saying(None)), body)
    assert (failed.status, failed.code) == (400, "invalid_request")
    assert named in str(failed)


def test_what_is_too_large_is_declined_before_it_is_parsed() -> None:
    failed = failure(pre("mine")(saying(None)), b"[" * (2 * MAX_PAYLOAD_BYTES))
    assert (failed.status, failed.code) == (413, "payload_too_large")


# -- what a function says --------------------------------------------------------------------------


def test_nothing_said_changes_nothing() -> None:
    answer = asked(pre("mine")(saying(None)))
    assert answer == {
        "payload": {
            "message_id": "m-1",
            "message_type": "chat",
            "payload": "hello",
            "metadata": {},
        },
        "metadata": {},
    }


@pytest.mark.parametrize(
    ("said", "payload", "metadata"),
    [
        ("HI", "HI", {}),
        ({"a": [1]}, {"a": [1]}, {}),
        (("HI", {"lang": "en"}), "HI", {"lang": "en"}),
        (Response(metadata={"lang": "en"}), "hello", {"lang": "en"}),
        (Response(payload=None), None, {}),
    ],
)
def test_a_pre_processor_changes_the_payload_and_adds_to_the_context(
    said: object, payload: object, metadata: object
) -> None:
    answer = asked(pre("mine")(saying(said)))
    assert (answer["payload"]["payload"], answer["metadata"]) == (payload, metadata)
    changed = read_processor_answer(json.dumps(answer).encode()).message.payload
    assert (changed and changed.read()) == payload


def test_metadata_of_the_message_itself_is_added_to() -> None:
    body = a_request()
    body["payload"]["metadata"] = {"a": 1}
    assert asked(pre("mine")(saying(Response(message_metadata={"b": 2}))), body)["payload"][
        "metadata"
    ] == {"a": 1, "b": 2}


def test_a_post_processor_says_what_to_add_to_the_decision() -> None:
    answer = asked(post("mine")(saying({"checked": "true"})))
    assert (answer["payload"]["payload"], answer["metadata"]) == ("hello", {"checked": "true"})


@pytest.mark.parametrize("said", [None, True])
def test_a_validator_lets_pass_by_saying_nothing_or_true(said: object) -> None:
    assert asked(validator("mine")(saying(said))) == {"status": "ok"}


def test_a_validators_no_has_a_reason_and_details() -> None:
    answer = asked(validator("mine")(saying(reject("too_long", {"most": 10}))))
    assert answer == {"status": "reject", "reason": "too_long", "details": {"most": 10}}
    assert not read_validator_answer(json.dumps(answer).encode()).is_ok
    assert asked(validator("mine")(saying(False)))["status"] == "reject"


@pytest.mark.parametrize(
    ("decorated", "field"),
    [
        (pre("mine")(saying(object())), "payload"),
        (pre("mine")(saying("\ud800")), "payload"),
        (pre("mine")(saying("x" * (MAX_PAYLOAD_BYTES + 1))), "payload"),
        (pre("mine")(saying(("a", "b"))), "metadata"),
        (pre("mine")(saying(("a", {}, {}))), "payload"),
        (pre("mine")(saying(("a", {1: 2}))), "metadata"),
        (pre("mine")(saying(("a", {"x": "x" * 70_000}))), "metadata"),
        (post("mine")(saying("text")), "metadata"),
        (validator("mine")(saying("no")), "status"),
        (validator("mine")(saying(reject(""))), "reason"),
        (validator("mine")(saying(reject("r", {"x": object()}))), "details"),
    ],
)
def test_what_is_no_answer_is_found_at_the_authors_side_and_named(
    decorated: Any, field: str
) -> None:
    failed = failure(decorated)
    assert (failed.status, failed.code, failed.field) == (422, "invalid_answer", field)


# -- what a function raises ------------------------------------------------------------------------


def raising(exc: BaseException) -> Callable[[Request], object]:
    def function(_: Request) -> object:
        raise exc

    return function


def test_a_refusal_is_a_4xx_with_its_own_words() -> None:
    failed = failure(pre("mine")(raising(Refused("no such customer", status=404))))
    assert (failed.status, failed.code, str(failed)) == (404, "refused", "no such customer")


class OddRefusal(Refused):
    code = "\ud800"


class UnspeakableRefusal(RequestRefused):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("exc", "code", "text"),
    [(OddRefusal("\ud800"), "?", "?"), (UnspeakableRefusal(), "request_refused", "")],
)
def test_a_refusal_whose_words_cannot_be_sent_is_sent_all_the_same(
    exc: Exception, code: str, text: str
) -> None:
    failed = failure(pre("mine")(raising(exc)))
    assert (failed.status, failed.code, str(failed)) == (422, code, text)


@pytest.mark.parametrize(
    "exc",
    [
        ValueError("secret"),
        asyncio.CancelledError(),
        SystemExit(1),
        KeyboardInterrupt(),
        GeneratorExit(),
        MemoryError(),
    ],
)
def test_any_other_exception_is_a_5xx_that_tells_nothing(
    exc: BaseException, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = failure(pre("mine")(raising(exc)))
    assert failed.status == 500
    assert "secret" not in str(failed)
    sys.stderr.write(capsys.readouterr().err)


async def test_the_deadline_cancels_what_is_awaited() -> None:
    gone = asyncio.Event()

    @pre("mine")
    async def hanging(_: Request) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            gone.set()

    with pytest.raises(RequestFailed) as caught:
        await FunctionRunner(hanging).run(
            data_of(a_request()), {}, asyncio.get_running_loop().time() + 0.01
        )
    assert (caught.value.status, gone.is_set()) == (504, True)


async def test_a_timeout_of_the_functions_own_is_not_the_deadline() -> None:
    @pre("mine")
    async def late(_: Request) -> None:
        raise TimeoutError

    with pytest.raises(RequestFailed) as caught:
        await FunctionRunner(late).run(
            data_of(a_request()), {}, asyncio.get_running_loop().time() + 5
        )
    assert caught.value.status == 500


async def test_a_request_whose_thread_cannot_be_started_takes_no_other_s_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runner = FunctionRunner(pre("mine", blocking=True)(saying(None)))
    with monkeypatch.context() as patched:
        patched.setattr(threading.Thread, "start", refuse_to_start)
        with pytest.raises(RequestFailed) as caught:
            await runner.run(data_of(a_request()), {}, None)
    assert caught.value.status == 500
    async with asyncio.timeout(30):
        assert await runner.run(data_of(a_request()), {}, None)


# -- providers -------------------------------------------------------------------------------------


def test_a_provider_answers_text_or_an_output() -> None:
    assert asked(provider("mine")(saying("hi")), a_prompt()) == {
        "provider_id": "mine",
        "output": "hi",
        "usage": {},
        "metadata": {},
    }
    said = Output(
        output="hi", prompt_tokens=1, completion_tokens=2, cost=0.5, metadata={"source": "crm"}
    )
    answer = asked(provider("mine")(saying(said)), a_prompt())
    assert (answer["usage"], answer["cost"]) == ({"prompt_tokens": 1, "completion_tokens": 2}, 0.5)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (None, "output"),
        (Output(prompt_tokens=-1), "usage"),
        (Output(cost=float("nan")), "cost"),
        (Output(metadata=7), "metadata"),
    ],  # type: ignore[arg-type]
)
def test_figures_that_cannot_be_billed_are_named(said: object, field: str) -> None:
    assert failure(provider("mine")(saying(said)), a_prompt()).field == field


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"prompt": 7}, "prompt"),
        ({"provider_id": "a b"}, "provider_id"),
        ({"parameters": []}, "parameters"),
    ],
)
def test_an_invocation_that_is_none_is_declined_naming_the_field(
    wrong: dict[str, Any], field: str
) -> None:
    failed = failure(provider("mine")(saying("hi")), a_prompt(**wrong))
    assert (failed.status, failed.field) == (400, field)


def test_a_provider_tells_its_model_and_what_was_cached() -> None:
    said = Output(
        output="hi", model="gpt-4o", prompt_tokens=9, completion_tokens=2, cached_tokens=4
    )
    answer = asked(provider("mine")(saying(said)), a_prompt())
    assert answer["usage"] == {"prompt_tokens": 9, "completion_tokens": 2, "cached_tokens": 4}
    assert answer["model"] == "gpt-4o"


@pytest.mark.parametrize(
    ("said", "field"),
    [
        (Output(prompt_tokens=1, cached_tokens=2), "cached_tokens"),
        (Output(completion_tokens=10**9), "usage"),
        (Output(cost=1e16), "cost"),
        (Output(model="two words"), "model"),
        (Output(model=7), "model"),  # type: ignore[arg-type]
    ],
)
def test_a_figure_that_the_router_would_leave_out_is_named_to_its_author(
    said: Output, field: str
) -> None:
    assert failure(provider("mine")(saying(said)), a_prompt()).field == field


@provider("mine")
async def tells_early(_: Invocation) -> AsyncIterator[str | Usage]:
    yield Usage(model="gpt-4o", prompt_tokens=9)
    yield "hello "
    yield Usage(completion_tokens=1)
    yield Output(output="you", completion_tokens=2)


async def test_a_stream_may_tell_its_use_at_any_time() -> None:
    pieces = [
        json.loads(piece)
        async for piece in FunctionRunner(tells_early).stream(data_of(a_prompt()), {}, None)
    ]
    assert [(one["data"], one.get("metadata", {}), one["done"]) for one in pieces] == [
        ("", {"model": "gpt-4o", "prompt_tokens": "9"}, False),
        ("hello ", {}, False),
        ("", {"completion_tokens": "1"}, False),
        ("you", {"completion_tokens": "2"}, True),
    ]


async def test_one_answer_of_a_stream_has_the_last_word_on_each_figure() -> None:
    answer = json.loads(await FunctionRunner(tells_early).run(data_of(a_prompt()), {}, None))
    assert (answer["output"], answer["model"], answer["usage"]) == (
        "hello you",
        "gpt-4o",
        {"prompt_tokens": 9, "completion_tokens": 2},
    )


async def test_use_that_is_not_legal_ends_a_stream() -> None:
    @provider("mine")
    async def wrong(_: Invocation) -> AsyncIterator[str | Usage]:
        yield Usage(prompt_tokens=-1)

    with pytest.raises(RequestFailed) as caught:
        _ = [piece async for piece in FunctionRunner(wrong).stream(data_of(a_prompt()), {}, None)]
    assert caught.value.field == "usage"
