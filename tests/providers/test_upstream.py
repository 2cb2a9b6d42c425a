"""One call of an API: what its status means, how long it may take, how much of it is read, and that
it ends with its caller.
"""

import asyncio
from pathlib import Path

import pytest

from router.core.errors import Misconfigured, RouterError
from router.providers.event_lines import MAX_BYTES
from router.providers.options import UpstreamTimes
from router.providers.upstream import MAX_ERROR_LETTERS, parse_url, require_private
from router.sdk.extension import RateLimited
from tests.support.model_apis import Fault, ModelApis, answers_bytes, is_silent, refuses
from tests.support.provider_services import (
    KEY,
    PATIENT,
    QUESTION,
    a_provider,
    asks,
    complete,
    stream,
    write_key,
)
from tests.support.waiting import until

OPENAIS = {"error": {"message": "too long", "type": "invalid_request_error", "code": "context"}}


async def failure_of(apis: ModelApis, fault: Fault, **given: object) -> RouterError:
    apis.faults.append(fault)
    async with a_provider("openai", apis, **given) as provider:
        with pytest.raises(RouterError) as failed:
            await complete(provider, asks(QUESTION))
    return failed.value


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "REQUEST_REFUSED"),
        (413, "REQUEST_REFUSED"),
        (422, "REQUEST_REFUSED"),
        (404, "PROVIDER_FAILED"),
        (429, "RATE_LIMITED"),
        (500, "PROVIDER_FAILED"),
        (503, "PROVIDER_FAILED"),
        (529, "PROVIDER_FAILED"),
        (302, "PROVIDER_FAILED"),
    ],
)
async def test_a_status_has_its_class(apis: ModelApis, status: int, code: str) -> None:
    failure = await failure_of(apis, refuses(status, OPENAIS, location=f"{apis.url}/v1/models"))
    assert failure.code == code
    assert f"answered {status}" in str(failure)
    assert len(apis.calls) == 1  # a redirect is not followed, and nothing is tried again


async def test_a_model_that_is_not_there_is_the_requests_fault(apis: ModelApis) -> None:
    said = {"error": {"message": "no such model", "code": "model_not_found"}}
    assert (await failure_of(apis, refuses(404, said))).code == "REQUEST_REFUSED"


async def test_a_rate_limit_says_for_how_long(apis: ModelApis) -> None:
    failure = await failure_of(apis, refuses(429, retry_after="1.5"))
    assert isinstance(failure, RateLimited)
    assert failure.retry_after_ms == 1500


async def test_what_an_api_says_of_an_error_is_cut(apis: ModelApis) -> None:
    said = {"error": {"message": "x" * 5000 + "\x1b", "type": "t" * 500}}
    failure = await failure_of(apis, refuses(400, said))
    assert "xxx" in str(failure)
    assert len(str(failure)) < MAX_ERROR_LETTERS + 200


@pytest.mark.parametrize("status", [401, 403])
async def test_what_an_api_says_of_the_key_stays_here(
    apis: ModelApis, status: int, tmp_path: Path
) -> None:
    said = {"error": {"message": f"Incorrect API key provided: {KEY[:8]}"}}
    failure = await failure_of(apis, refuses(status, said), key_file=write_key(tmp_path))
    assert "refuses this provider's key" in str(failure)
    assert KEY[:8] not in str(failure)
    assert apis.calls[0].headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize(
    "data", [b"garbage", b"[1]", b"", b'{"a":' * 100 + b"1" + b"}" * 100, b"\xff"]
)
async def test_what_is_no_json_object_is_no_answer(apis: ModelApis, data: bytes) -> None:
    assert "no JSON object" in str(await failure_of(apis, answers_bytes(data)))


async def test_an_answer_above_the_bound_is_not_read_on(apis: ModelApis) -> None:
    failure = await failure_of(apis, answers_bytes(b'"' + b"x" * MAX_BYTES + b'"'))
    assert f"larger than {MAX_BYTES}" in str(failure)


async def test_an_event_above_the_bound_ends_the_stream(apis: ModelApis) -> None:
    apis.faults.append(answers_bytes(b"data: " + b"x" * (MAX_BYTES + 1), "text/event-stream"))
    async with a_provider("openai", apis) as provider:
        with pytest.raises(RouterError, match="no stream of events"):
            await stream(provider, asks(QUESTION))


async def test_an_api_that_is_silent_before_its_first_byte_is_left(apis: ModelApis) -> None:
    times = UpstreamTimes(connect_s=30, first_byte_s=0.2, read_s=60)
    assert "silent for too long" in str(await failure_of(apis, is_silent(), times=times))


async def test_an_api_that_falls_silent_is_left(apis: ModelApis) -> None:
    times = UpstreamTimes(connect_s=30, first_byte_s=60, read_s=0.2)
    assert "silent for too long" in str(await failure_of(apis, is_silent("{"), times=times))
    await until(lambda: apis.calls[0].is_gone.is_set())


async def test_an_api_that_is_not_there_is_no_connection(apis: ModelApis) -> None:
    async with a_provider("openai", base_url="http://127.0.0.1:1/v1") as provider:
        with pytest.raises(RouterError, match="no connection to the API"):
            await complete(provider, asks(QUESTION))


@pytest.mark.parametrize("sent", ["", 'data: {"choices": [{"delta": {}}]}\n\n'])
async def test_a_caller_that_leaves_ends_the_call(apis: ModelApis, sent: str) -> None:
    apis.faults.append(is_silent(sent))
    async with a_provider("openai", apis, times=PATIENT) as provider:
        asking = asyncio.create_task(stream(provider, asks(QUESTION)))
        await until(lambda: len(apis.calls) == 1)
        asking.cancel()
        await asyncio.wait({asking})
        await until(lambda: apis.calls[0].is_gone.is_set())


@pytest.mark.parametrize("kind", ["openai", "anthropic", "ollama"])
async def test_a_connection_serves_again_after_a_stream(apis: ModelApis, kind: str) -> None:
    async with a_provider(kind, apis) as provider:
        for _ in range(3):
            await stream(provider, asks(QUESTION))
            await complete(provider, asks(QUESTION))
    assert [call.has_ended for call in apis.calls] == [True] * 6
    assert len({call.port for call in apis.calls}) == 1


async def test_cookies_of_one_call_do_not_reach_the_next(apis: ModelApis) -> None:
    apis.faults.append(refuses(400, set_cookie="session=acme"))
    async with a_provider("openai", apis) as provider:
        with pytest.raises(RouterError):
            await complete(provider, asks(QUESTION))
        await complete(provider, asks(QUESTION))
    assert "cookie" not in apis.calls[-1].headers


@pytest.mark.parametrize(
    "url",
    ["ftp://a/", "nonsense", "http://", "https://u:p@a/v1", "https://a/?key=x", "https://a#b"],
)
def test_an_address_that_is_none_or_holds_a_login_is_refused(url: str) -> None:
    with pytest.raises(Misconfigured, match="--base-url") as refused:
        parse_url(url)
    assert "u:p" not in str(refused.value)
    assert "key=x" not in str(refused.value)


def test_a_key_crosses_no_network_as_plain_text() -> None:
    for fine in ("http://127.0.0.1:1/v1", "http://localhost", "http://[::1]:1", "https://api.a/v1"):
        require_private(fine)
    for wrong in ("http://api.a/v1", "http://10.0.0.1:1", "http://127.0.0.1.evil.test"):
        with pytest.raises(Misconfigured, match="--insecure-http"):
            require_private(wrong)
