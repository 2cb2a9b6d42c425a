"""Every field that the specifications' tables do not mark optional is in what clients ask, and in
what extensions of the SDK answer.
"""

import json

from nats.aio.client import Client as Nats
from nats.aio.msg import Msg

from router import Client
from router.contracts.answer import success
from router.contracts.decision import Decision
from router.contracts.provider import INVOKE, INVOKE_STREAM
from router.sdk.extension import Output, Response, post, pre, provider, reject, validator
from router.sdk.extension.function_runner import FunctionRunner
from tests.support.extension_author import a_prompt, a_request, data_of
from tests.support.spec_tables import find_faults_in

RESPONSE = b'{"request_id":"r","status":"success","body":"","metadata":{},"latency_ms":0,"cost":0.0,"timestamp_ms":1}'
CHUNK = b'{"request_id":"r","data":"","done":true,"metadata":{"status":"success"}}'


async def hear(nc: Nats, subject: str, answer: bytes) -> list[Msg]:
    """What is asked on a subject, each answered with the same."""
    heard: list[Msg] = []

    async def respond(message: Msg) -> None:
        heard.append(message)
        await nc.publish((message.headers or {}).get("Reply-To") or message.reply, answer)

    await nc.subscribe(subject, cb=respond)
    await nc.flush()
    return heard


async def test_every_invocation_of_a_client_has_the_fields_of_its_table(
    nc: Nats, nats_url: str
) -> None:
    heard, streamed = await hear(nc, INVOKE, RESPONSE), await hear(nc, INVOKE_STREAM, CHUNK)
    least, whole = (
        {"tenant_id": "acme", "provider_id": "echo", "prompt": "hello"},
        {"parameters": {"n": 1}, "context": {"a": "b"}},
    )
    async with Client(nats_url) as client:
        for more in ({}, {"prompt": b"\xff"}, {**whole, "trace_id": "t-1"}):
            await client.invoke(**{**least, **more})
            async for _ in client.invoke_stream(**{**least, **more}):
                pass
    assert (
        find_faults_in(
            "provider_request", [json.loads(one.data) for one in (*heard, *streamed)], least=6
        )
        == []
    )


async def test_every_request_of_a_client_has_the_fields_of_its_table(
    nc: Nats, nats_url: str
) -> None:
    heard = await hear(
        nc, "beamline.router.v1.decide", success(Decision("p", "weighted", 50, 1.0, 0.0), "r-1")
    )
    async with Client(nats_url) as client:
        for more in (
            {},
            {"payload": b"\xff"},
            {"policy_id": "fast", "context": {"a": 1}, "push": True, "request_id": "r-1"},
        ):
            await client.decide(
                **{"tenant_id": "acme", "message_type": "chat", "payload": "hello", **more}
            )
    assert find_faults_in("decide_request", [json.loads(one.data) for one in heard], least=3) == []


def ask(decorated: object, body: object) -> dict[str, object]:
    answer: dict[str, object] = json.loads(FunctionRunner(decorated).run_now(data_of(body), {}))  # type: ignore[arg-type]
    return answer


VALUES = (
    None,
    "changed",
    {"a": 1},
    ("changed", {"seen": "yes"}),
    Response(payload=1, metadata={"a": "b"}),
)


def test_every_answer_of_a_processor_has_the_fields_of_its_table() -> None:
    answers = [ask(pre("mine")(lambda _, value=value: value), a_request()) for value in VALUES]
    answers += [
        ask(post("mine")(lambda _, value=value: value), a_request())
        for value in (None, {"a": "b"}, VALUES[-1])
    ]
    assert find_faults_in("processor_answer", answers, least=8) == []


def test_every_answer_of_a_validator_has_the_fields_of_its_table() -> None:
    def answer(value: object) -> dict[str, object]:
        return ask(validator("mine")(lambda _: value), a_request())

    rejected = [
        answer(value)
        for value in (False, reject("pii_detected"), reject("pii", {"field": "payload"}))
    ]
    assert (
        find_faults_in("validator_answer", [answer(None), answer(True), *rejected], least=5) == []
    )
    assert find_faults_in("validator_rejection", rejected, least=3) == []


def test_every_answer_of_a_provider_has_the_fields_of_its_table() -> None:
    values = (
        "hi",
        {"a": 1},
        Output(
            output="hi", prompt_tokens=1, completion_tokens=2, cost=0.5, metadata={"source": "crm"}
        ),
    )
    answers = [ask(provider("mine")(lambda _, value=value: value), a_prompt()) for value in values]
    assert find_faults_in("provider_answer", answers, least=3) == []
