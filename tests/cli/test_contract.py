"""`router contract`: schemas as files, and a message checked field by field; no server is asked."""

import json
import re
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from router.config import Settings
from router.contracts import protos
from router.contracts.codec import MAX_DEPTH, MAX_PAYLOAD_BYTES
from router.contracts.header_rules import RULES
from router.operate.catalogue import MessageShape, build_shapes
from router.serve.contract.commands.field_report import (
    MAX_LINES,
    build_readers,
    parse,
    report_fields,
)
from tests.contracts.agreement.generate import generate
from tests.support.cli import CommandResult, call_command
from tests.support.requests import a_protobuf

UNRECOGNISED = ("ingress", "extension-message")


def check(message: object, *more: str) -> CommandResult:
    return call_command(
        "contract", "check", "-", "--json", *more, given=json.dumps(message).encode()
    )


def verdicts(result: CommandResult) -> dict[str, str]:
    return {line["field"]: line["verdict"] for line in result.json["fields"]}


def test_each_message_is_a_file_and_the_settings_bound_it(tmp_path: Path) -> None:
    ended = call_command(
        "contract", "schemas", str(tmp_path / "made"), environ={"ROUTER_RESULTS__MAX_COST": "7"}
    )
    files = {file.stem: json.loads(file.read_text()) for file in (tmp_path / "made").glob("*.json")}
    assert ended.status == 0
    assert set(files) == set(build_shapes())
    assert files["decide"]["$id"] == "urn:beamline:router:v1:decide"
    assert files["result"]["oneOf"][0]["properties"]["cost"]["maximum"] == 7


def test_every_mistake_of_a_message_is_named_not_the_first_alone() -> None:
    message = {
        "message": {"tenant_id": "_x", "payload": 1, "messag_type": "chat"},
        "context": [],
        "push_assignment": "yes",
        "junk": 1,
    }
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


def test_a_field_that_counts_in_the_message_too_is_no_unknown_one() -> None:
    inner = {
        "tenant_id": "acme",
        "type": "chat",
        "payload": 1,
        "idempotency_key": "k",
        "timestamp_ms": 1,
        "version": "1",
    }
    ended = check({"message": inner})
    assert (ended.status, set(verdicts(ended).values())) == (0, {"read"})


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
    assert [line["field"] for line in ended.json["fields"] if line["verdict"] == "violation"] == [
        "Nats-Msg-Id",
        "tenant_id",
    ]
    assert check(message, "--header", "version=3").status == 1


def test_protobuf_is_read_as_a_router_reads_it() -> None:
    ended = call_command("contract", "check", "-", given=a_protobuf())
    assert (ended.status, ended.out.splitlines()[-1]) == (0, "read as decide")


def test_bytes_that_are_no_message_are_refused_as_a_whole() -> None:
    ended = call_command("contract", "check", "-", "--json", "--as", "ack", given=b"[1]")
    assert (ended.status, verdicts(ended)) == (1, {"*": "refused"})


def test_a_message_of_another_name_is_wrong_use() -> None:
    assert check({}, "--as", "letter").status == 2


def test_the_document_is_yaml_or_json() -> None:
    as_yaml, as_json = (
        call_command("contract", "asyncapi"),
        call_command("contract", "asyncapi", "--json"),
    )
    assert yaml.safe_load(as_yaml.out) == as_json.json
    assert as_json.json["asyncapi"] == "3.0.0"


def test_the_headers_are_a_table() -> None:
    rules = [
        (line["header"], line["rule"])
        for line in call_command("contract", "headers", "--json").lines
    ]
    assert rules == [(rule.header, rule.name) for rule in RULES]
    assert "W3C Trace Context" in call_command("contract", "headers").out


def test_the_proto_files_are_beside_the_schemas(tmp_path: Path) -> None:
    call_command("contract", "schemas", str(tmp_path))
    assert (
        "message RouteRequest"
        in (tmp_path / "proto" / "beamline" / "flow" / "v1" / "flow.proto").read_text()
    )


def test_an_installed_package_has_the_proto_files_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protos, "PACKAGE", tmp_path / "router")
    assert list(protos.list_protos()) == []
    file = tmp_path / "router" / "proto" / "beamline" / "x.proto"
    file.parent.mkdir(parents=True)
    file.write_text("message X {}")
    assert list(protos.list_protos()) == [("beamline/x.proto", "message X {}")]
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert (
        project["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]["proto/beamline"]
        == "router/proto/beamline"
    )


def test_a_removed_field_breaks_and_a_new_optional_one_does_not(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    for directory in (old, new):
        call_command("contract", "schemas", str(directory))
    assert (same := call_command("contract", "diff", str(old), str(new))).status == 0
    assert same.out == "nothing changed\n"
    edit(
        new / "ack.json",
        lambda schema: schema["oneOf"][0]["properties"].update(note={"type": "string"}),
    )
    ended = call_command("contract", "diff", str(old), str(new), "--json")
    assert (ended.status, [(line["kind"], line["place"]) for line in ended.lines]) == (
        0,
        [("added", "ack(bare).note")],
    )
    edit(
        new / "answer.json",
        lambda schema: schema["oneOf"][0]["properties"]["decision"]["properties"].pop("priority"),
    )
    (new / "usage.json").unlink()
    ended = call_command("contract", "diff", str(old), str(new), "--json")
    broken = {line["place"] for line in ended.lines if line["kind"] == "broken"}
    assert (ended.status, broken) == (1, {"answer(decided).decision.priority", "usage"})


def test_a_channel_that_moves_breaks(tmp_path: Path) -> None:
    for name, environ in (
        ("old", {}),
        (
            "new",
            {
                "ROUTER_RESULTS__SUBJECT": "own.results",
                "ROUTER_STREAMS__USAGE__MAX_AGE_MS": "1000000",
            },
        ),
    ):
        document = call_command("contract", "asyncapi", "--json", environ=environ).out
        (tmp_path / f"{name}.json").write_text(document)
    ended = call_command(
        "contract", "diff", str(tmp_path / "old.json"), str(tmp_path / "new.json"), "--json"
    )
    found = {(line["kind"], line["place"]) for line in ended.lines}
    assert ended.status == 1
    assert found >= {("broken", "results"), ("changed", "usage")}


def test_what_is_no_contract_is_wrong_use(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("[]")
    (tmp_path / "b.json").write_text("{}")
    for name in ("a.json", "b.json"):
        assert (
            call_command("contract", "diff", str(tmp_path / name), str(tmp_path / name)).status == 2
        )


def test_a_message_into_the_system_is_read_up_to_the_decide_stream() -> None:
    ended = check(
        {"message_id": "m-1", "tenant_id": "acme", "payload": None, "type": 5}, "--as", "ingress"
    )
    assert ended.status == 1
    assert {name for name, verdict in verdicts(ended).items() if verdict == "refused"} == {
        "message_type",
        "payload",
    }


@pytest.mark.parametrize("shape", build_shapes().values(), ids=build_shapes())
def test_whatever_is_given_each_line_has_a_verdict_and_the_reader_decides(
    shape: MessageShape,
) -> None:
    reader = build_readers(Settings(), build_shapes())[shape.name]
    messages = [orjson.dumps(message) for message in generate(shape, 100, seed=7)]
    for data in (
        *messages,
        b"",
        b"[]",
        b"\xff",
        b'{"kind":"x","data":5}',
        b'{"message":5,"task":[]}',
    ):
        report = report_fields(shape, reader, data, {}, parse(data, MAX_PAYLOAD_BYTES, MAX_DEPTH))
        assert report.is_readable is (reader(data, {}).fault is None)
        assert report.is_readable is all(line.verdict != "refused" for line in report.lines)
        assert len({line.field for line in report.lines}) == len(report.lines)


DEEP = b'{"message":' + b'{"a":' * 600 + b"1" + b"}" * 600 + b"}"
MANY = orjson.dumps({f"f{number}": number for number in range(20_000)})


@pytest.mark.parametrize(
    "data",
    [
        DEEP,
        MANY,
        b"[" * 1_000_000,
        b'{"message":NaN}',
        b" " * 2_000_000,
        b'{"tenant_id":' + b"9" * 400 + b"}",
    ],
    ids=range(6),
)
def test_hostile_messages_are_refused_in_a_few_lines(data: bytes) -> None:
    ended = call_command("contract", "check", "-", "--json", given=data)
    assert ended.status == 1, ended.err
    assert len(ended.json["fields"]) <= MAX_LINES + 3


def test_of_two_equal_fields_the_last_one_is_judged_as_a_reader_does() -> None:
    ended = call_command(
        "contract",
        "check",
        "-",
        "--json",
        given=b'{"tenant_id":"acme","tenant_id":"_b","message_type":"x","payload":1}',
    )
    assert (ended.status, verdicts(ended)["tenant_id"]) == (1, "refused")


def test_a_file_that_no_server_takes_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules["router.serve.contract.commands.check"], "MAX_BYTES", 10)
    assert call_command("contract", "check", "-", given=b"x" * 11).status == 2


HOSTILE_DOCUMENTS: tuple[object, ...] = (
    {"components": []},
    {"components": {"schemas": {"a": {"$ref": "#/a"}}}},
    {"components": {"schemas": {"a": {"properties": {"b": {"$ref": "#/a"}}}}}},
    {
        "components": {
            "schemas": {f"p{n}": {"oneOf": [{"$ref": f"#/p{n + 1}"}] * 20} for n in range(30)}
        }
    },
    {"components": {"schemas": {"a": 5}}},
    {"components": {"schemas": {"a": {"properties": {"b": 5}}}}},
    {"components": {"schemas": {"a": {"properties": []}}}},
    {"components": {"schemas": {"a": {"required": 7}}}},
    {"components": {"schemas": {"a": {"required": [[1]]}}}},
    {"components": {"schemas": {"a": {"type": {"x": 1}}}}},
    {"components": {"schemas": {"a": {"enum": 5}}}},
    {"components": {"schemas": {"a": {"maximum": "x"}}}},
    {"components": {"schemas": {"a": {"oneOf": [1]}}}},
    {"components": {"schemas": {"a": {"items": []}}}},
    {"components": {"schemas": {}}, "channels": [1]},
    {"components": {"schemas": {}}, "channels": {"c": {"messages": 5}}},
    {"components": {"schemas": {"a": json.loads('{"not":' * 900 + "1" + "}" * 900)}}},
)


@pytest.mark.parametrize("document", HOSTILE_DOCUMENTS, ids=range(len(HOSTILE_DOCUMENTS)))
def test_a_hostile_document_is_wrong_use(tmp_path: Path, document: object) -> None:
    file = tmp_path / "hostile.json"
    file.write_text(json.dumps(document))
    ended = call_command("contract", "diff", str(file), str(file))
    # a long path is wrapped
    assert (ended.status, "hostile.json" in re.sub(r"[\s│]", "", ended.err)) == (2, True), ended.err


def edit(file: Path, change: Callable[[Any], object]) -> None:
    content = json.loads(file.read_text())
    change(content)
    file.write_text(json.dumps(content))
