"""Any JSON that is accepted arrives as the same bytes at workers and extensions, and what they
answer as the same values.
"""

import json
from decimal import Decimal

import msgspec
import pytest

from router.contracts.assignment import assignment_bytes
from router.contracts.content import is_same, is_same_payload
from router.contracts.decision import Decision, RouteRequest
from router.contracts.exec_assignment import read_exec_assignment
from router.contracts.extension import read_processor_answer
from router.contracts.malformed import Malformed
from router.contracts.provider_call import call_bytes, read_answer
from router.contracts.provider_request import read_request as read_provider_request
from router.contracts.raw_json import MAX_DIGITS, RawJson, has_endless_number, write_payload
from router.contracts.result import read_result
from router.core.outcome import Fault
from router.decide.model.read import read, read_carefully
from router.extensions.model.stage import PipelineContext
from router.operate.admin.request_guard import RequestGuard
from router.operate.admin.server import _encode
from router.operate.admin.service import ServiceError
from router.sdk.attempts import AttemptsResult
from router.sdk.extension.provider_io import read_invocation
from router.sdk.extension.request import read_request
from router.sdk.extension.response import encode_pre
from router.sdk.reports import result_bytes
from router.sdk.step import StepResult
from router.shell.options import read_payload
from tests.support.any_json import SAMPLES, iterate_json, read_exactly, write_object
from tests.support.requests import a_message

DECISION = Decision("openai", "weighted", 50, 800, 0.01, {})
DRAWN = [text for text in iterate_json(1500, seed=47) if text != b"null"]  # null is absent


def a_request(payload: bytes, more: bytes = b"") -> RouteRequest:
    body = (
        b'{"message":{"tenant_id":"acme","message_type":"chat","payload":%b},"request_id":"r-1"%b}'
        % (payload, more)
    )
    asked, carefully = read(a_message(body)).asked, read_carefully(a_message(body)).asked
    assert isinstance(asked, RouteRequest), (payload, asked)
    assert asked == carefully
    return asked


def find_part(data: bytes, *path: str) -> bytes:
    for name in path:
        data = bytes(msgspec.json.decode(data, type=dict[str, msgspec.Raw])[name])
    return data


def test_a_worker_gets_the_bytes_that_were_sent_and_its_echo_sends_them() -> None:
    for text in DRAWN:
        assignment = read_exec_assignment(assignment_bytes("a-1", a_request(text), DECISION))
        assert assignment.payload_bytes == text
        assert assignment.payload == json.loads(text)
        done = AttemptsResult(StepResult(output=assignment.raw_payload), 1, 1)
        result = result_bytes(assignment, done, worker_id="w", now_ms=1)
        assert find_part(result, "payload") == text


def test_an_extension_gets_the_bytes_that_were_sent_and_changes_nothing_by_returning_them() -> None:
    for text in DRAWN:
        context = PipelineContext(a_request(text), "default", None)
        asked = read_request(context.build_request({}), {})
        assert asked.payload_bytes == text
        assert asked.payload == json.loads(text)
        before = context.request
        context.apply_answer(before, read_processor_answer(encode_pre(asked, None)))
        assert context.request == before
        context.apply_answer(
            before, read_processor_answer(encode_pre(asked, RawJson(b"[%b]" % text)))
        )
        assert context.request.payload == RawJson(b"[%b]" % text)


def test_a_value_that_python_read_exactly_is_written_exactly() -> None:
    for text in DRAWN:
        assert read_exactly(write_payload(read_exactly(text))) == read_exactly(text)


def test_unknown_fields_and_forms_of_any_json_change_nothing() -> None:
    for text in DRAWN[:300]:
        assert a_request(b'"x"', b',"unknown":%b' % text).payload == RawJson(b'"x"')


@pytest.mark.parametrize(
    "value",
    [
        float("nan"),
        [float("inf")],
        {1: 2},
        b"x",
        object(),
        Decimal("nan"),
        RawJson(b"{"),
        RawJson(b'"\xff"'),
    ],
)
def test_what_json_has_not_is_not_written(value: object) -> None:
    with pytest.raises((TypeError, ValueError)):
        write_payload({"of": value})


@pytest.mark.parametrize(
    "text",
    [
        b'"\xff"',
        b'"\xed\xa0\x80"',
        b'"\\ud800"',
        b"01",
        b"NaN",
        b'"\x01"',
        b"[1,]",
        b'{"\xff":1}',
        b"tru",
        b"-",
    ],
)
def test_bytes_that_no_reader_takes_are_refused(text: bytes) -> None:
    for more in (b"", b',"unknown":1', b',"unknown":"%b"' % (b"x" * 20_000)):
        body = (
            b'{"message":{"tenant_id":"acme","message_type":"chat","payload":%b},"request_id":"r-1"%b}'
            % (text, more)
        )
        assert isinstance(read(a_message(body)).asked, Fault)


def test_a_number_of_more_digits_than_python_reads_is_refused_by_name_and_a_text_of_digits_is_none() -> (
    None
):
    body = b'{"message":{"tenant_id":"acme","message_type":"chat","payload":%b},"request_id":"r-1"}'
    refused = read(a_message(body % (b"1" * (MAX_DIGITS + 1)))).asked
    assert isinstance(refused, Fault)
    assert refused.field == "message.payload"
    assert a_request(b"1" * MAX_DIGITS).payload == RawJson(b"1" * MAX_DIGITS)
    assert a_request(b'"%b"' % (b"1" * 9000)).payload is not None
    assert [
        has_endless_number(b"[" * before + b"1" * MAX_DIGITS + b"1")
        for before in (0, 1, 17, 4095, 4096, 4097)
    ] == [True] * 6
    assert not has_endless_number(b"[" + b"1," * 3000 + b"1]")


def test_payloads_are_the_same_by_value_and_requests_by_their_digits_too() -> None:
    large = b"[18446744073709551616]"
    same = (
        (b'{"a":1,"b":[1.0]}', b'{ "b":[1.00], "a":1}'),
        (b'"\\u00e9"', '"é"'.encode()),
        (large, b"[ 18446744073709551616 ]"),
    )
    for one, other in same:
        assert is_same_payload(RawJson(one), RawJson(other))
    differ = (
        (large, b"[18446744073709551617]"),
        (b"[true]", b"[1]"),
        (b"[1e999]", b"[2e999]"),
        (b"[1e999]", b"[null]"),
    )
    for one, other in differ:
        assert not is_same_payload(RawJson(one), RawJson(other)), (one, other)
    as_python_writes_it = json.dumps(json.loads(b"[0.1234567890123456789012345]")).encode()
    assert is_same_payload(RawJson(as_python_writes_it), RawJson(b"[0.1234567890123456789012345]"))
    for payload, other in (
        (b"0.1234567890123456789", b"0.1234567890123456788"),
        (b"1e-999", b"0.0"),
        (b"1e99999999999999999999", b"1"),
    ):
        assert not is_same(b'{"payload":%b}' % payload, b'{"payload":%b}' % other)


def test_a_request_is_the_same_as_itself_with_its_keys_turned_round() -> None:
    for text in SAMPLES.values():
        one, other = (
            b'{"request_id":"r","message":{"payload":%b}}' % text,
            b'{"message":{"payload": %b },"request_id":"r"}' % text,
        )
        assert is_same(one, other)
        assert is_same(b"\n" + one, other)


def test_a_provider_gets_the_parameters_that_were_sent() -> None:
    for text in iterate_json(300, 7, write_object):
        request = read_provider_request(
            b'{"provider_id":"echo","tenant_id":"acme","body":"x","parameters":%b}' % text, {}
        )
        data = call_bytes(request, {})
        assert find_part(data, "parameters") == text
        assert read_invocation(data, {}).parameters == json.loads(text)
        turned = b'{"parameters": %b ,"body":"x","tenant_id":"acme","provider_id":"echo"}' % text
        assert read_provider_request(turned, {}).digest() == request.digest()
    refused = b'{"provider_id":"echo","tenant_id":"acme","body":"x","metadata":{"id":18446744073709551616}}'
    with pytest.raises(Malformed) as told:
        read_provider_request(refused, {})
    assert told.value.field == "metadata"


def test_a_provider_s_output_that_is_no_text_goes_on_as_it_was_written() -> None:
    for text in DRAWN:
        found = read_answer(b'{"output":%b}' % text, "echo")
        assert found.body == (json.loads(text) if text.startswith(b'"') else text.decode())


def test_whatever_a_worker_answers_its_result_is_read() -> None:
    assignment = read_exec_assignment(assignment_bytes("a-1", a_request(b"1"), DECISION))
    for text in DRAWN[:300]:
        done = AttemptsResult(StepResult(output=RawJson(text)), 1, 1)
        data = result_bytes(assignment, done, worker_id="w", now_ms=1_700_000_000_000)
        for sent in (data, data.replace(b"{", b'{"unknown":1,', 1)):
            assert not isinstance(read_result(a_message(sent)).found, Fault)


def test_an_operators_dry_run_and_the_command_line_take_the_payload_as_it_is_written() -> None:
    for text in DRAWN[:300]:
        asked = RequestGuard().open(b'{"tenant_id":"acme","payload":%b}' % text, {})
        assert asked.payload() == RawJson(text)
        assert b'"final_payload":%b' % text in _encode({"final_payload": asked.payload()})
    assert read_payload("18446744073709551616 ") == RawJson(b"18446744073709551616")
    assert read_payload("hello") == "hello"
    with pytest.raises(ServiceError) as told:
        RequestGuard().open(b'{"policy":{"priority":18446744073709551616}}', {})
    assert told.value.details == {"field": "policy"}
