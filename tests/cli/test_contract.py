"""`router contract`: schemas as files, and a message checked field by field; no server is asked."""

import json
from pathlib import Path

import pytest

from router.contracts.shapes import MessageShape, build_shapes
from tests.support.cli import CommandResult, call_command
from tests.support.requests import a_protobuf

UNRECOGNISED = ("ingress", "extension-message")


def check(message: object, *more: str) -> CommandResult:
    return call_command("contract", "check", "-", "--json", *more, given=json.dumps(message).encode())


def verdicts(result: CommandResult) -> dict[str, str]:
    return {line["field"]: line["verdict"] for line in result.json["fields"]}


def test_each_message_is_a_file_and_the_settings_bound_it(tmp_path: Path) -> None:
    ended = call_command("contract", "schemas", str(tmp_path / "made"), environ={"ROUTER_RESULTS__MAX_COST": "7"})
    files = {file.stem: json.loads(file.read_text()) for file in (tmp_path / "made").glob("*.json")}
    assert ended.status == 0
    assert set(files) == set(build_shapes())
    assert files["decide"]["$id"] == "urn:beamline:router:v1:decide"
    assert files["result"]["oneOf"][0]["properties"]["cost"]["maximum"] == 7


def test_every_mistake_of_a_message_is_named_not_the_first_alone() -> None:
    message = {"message": {"tenant_id": "_x", "payload": 1, "messag_type": "chat"}, "context": [], "push_assignment": "yes", "junk": 1}
    ended = check(message)
    assert (ended.status, ended.json["message"], ended.json["ok"]) == (1, "decide", False)
    assert verdicts(ended) == {
        "message.tenant_id": "refused",
        "message.message_type": "refused",
        "context": "refused",
        "push_assignment": "refused",
        "message": "read",
        "message.payload": "read",
        "message.messag_type": "ignored",
        "junk": "ignored",
    }
    assert "did you mean message.message_type?" in ended.out


def test_a_mistake_inside_an_envelope_does_not_hide_the_next_one() -> None:
    data = {"assignment_id": "a b", "status": "done", "latency_ms": -1, "cost": 0}
    ended = check({"version": "1", "kind": "exec_result", "data": data})
    assert (ended.status, ended.json["message"]) == (1, "result")
    refused = [name for name, verdict in verdicts(ended).items() if verdict == "refused"]
    assert refused == ["data.assignment_id", "data.latency_ms", "data.status"]


@pytest.mark.parametrize("shape", build_shapes().values(), ids=build_shapes())
def test_the_examples_of_the_contract_are_read_and_recognised(shape: MessageShape) -> None:
    """A message into the system and a processor's answer look like others: they are named."""
    name = ("--as", shape.name) if shape.name in UNRECOGNISED else ()
    for example in shape.examples:
        ended = check(example, *name)
        assert (ended.status, ended.json["message"]) == (0, shape.name), ended.out
        assert {line["verdict"] for line in ended.json["fields"]} == {"read"}


def test_headers_are_checked_beside_the_message() -> None:
    message = {"tenant_id": "acme", "message_type": "chat", "payload": 1}
    ended = check(message, "--header", "trace_id=t-1", "--header", "tenant_id=beta")
    assert ended.status == 0
    assert [line["field"] for line in ended.json["fields"] if line["verdict"] == "violation"] == ["Nats-Msg-Id", "tenant_id"]
    assert check(message, "--header", "version=3").status == 1


def test_protobuf_is_read_as_a_router_reads_it() -> None:
    ended = call_command("contract", "check", "-", given=a_protobuf())
    assert (ended.status, ended.out.splitlines()[-1]) == (0, "read as decide")


def test_bytes_that_are_no_message_are_refused_as_a_whole() -> None:
    ended = call_command("contract", "check", "-", "--json", "--as", "ack", given=b"[1]")
    assert (ended.status, verdicts(ended)) == (1, {"*": "refused"})


def test_a_message_of_another_name_is_wrong_use() -> None:
    assert check({}, "--as", "letter").status == 2
