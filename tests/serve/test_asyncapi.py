"""The AsyncAPI document is that of the settings, the topology and the shapes; `npx @asyncapi/cli
validate` checks its form.
"""

import re
from collections.abc import Iterator
from typing import Any

import jsonschema_rs
import orjson
import pytest
import yaml

from router.config import Settings, load
from router.contracts.header_rules import RULES, build_headers_schema, violations
from router.contracts.headers import CHECKED_SUBJECTS
from router.contracts.shapes.difference import Definitions
from router.contracts.shapes.notation import build_request, build_response
from router.core import ids
from router.operate.topology.declared_topology import declare_topology
from router.serve.contract.asyncapi import write_yaml
from router.serve.contract.contract_document import build_contract_document

DOCUMENT = build_contract_document(Settings())


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from ([value["$ref"]] if isinstance(value.get("$ref"), str) else [])
    for inner in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from references(inner)


def find(reference: str) -> Any:
    found: Any = DOCUMENT
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def test_every_reference_is_there() -> None:
    found = set(references(DOCUMENT))
    assert len(found) > 100
    assert all(find(reference) for reference in found)


def test_as_yaml_it_is_the_same_document() -> None:
    assert yaml.safe_load(write_yaml(DOCUMENT)) == orjson.loads(orjson.dumps(DOCUMENT))


@pytest.mark.parametrize(
    "text",
    [
        "yes",
        "Off",
        "null",
        "1",
        "1e3",
        "- a",
        "a: b",
        "# a",
        "",
        " a",
        "é\n\t\x7f",
        "0x1",
        "~",
        "2024-01-15",
        "@a",
    ],
)
def test_no_text_changes_its_kind_in_yaml(text: str) -> None:
    value = {text: [text, {"inner": [1.5, 1e-7, 1e20, True, None, {}, []]}]}
    assert yaml.safe_load(write_yaml(value)) == value


def test_every_example_is_valid_where_the_document_holds_it() -> None:
    schemas = DOCUMENT["components"]["schemas"]
    for message in DOCUMENT["components"]["messages"].values():
        schema = Definitions(schemas).resolve(find(message["payload"]["$ref"]))
        for example in message.get("examples", ()):
            jsonschema_rs.Draft7Validator(schema).validate(example["payload"])


def test_every_subject_that_a_stream_keeps_is_a_channel() -> None:
    addresses = {
        re.sub(r"\{\w+\}", "*", channel["address"] or "")
        for channel in DOCUMENT["channels"].values()
    }
    streams = [
        stream
        for stream in declare_topology(Settings()).streams
        if not stream.name.startswith("KV_")
    ]
    subjects = {subject for stream in streams for subject in stream.subjects if ">" not in subject}
    assert subjects <= addresses


def test_an_operation_has_the_messages_of_its_channel() -> None:
    for operation in DOCUMENT["operations"].values():
        channel = operation["channel"]["$ref"]
        assert [message["$ref"] for message in operation["messages"]] == [
            f"{channel}/messages/{name}" for name in find(channel)["messages"]
        ]


def test_it_follows_the_settings_and_shows_no_login() -> None:
    given = {
        "nats.url": "tls://secret-user:secret-word@broker.example:4333",
        "decide.subject": "own.decide",
        "results.max_cost": "7",
        "streams.decide.name": "OWN_DECIDE",
    }
    document = build_contract_document(load(None, given, {}).settings)
    assert document["servers"]["nats1"] == {
        "host": "broker.example:4333",
        "protocol": "tls",
        "description": "NATS with JetStream",
    }
    channel = document["channels"]["decide"]
    assert (channel["address"], channel["x-jetstream"]["stream"]) == ("own.decide", "OWN_DECIDE")
    assert (
        document["components"]["schemas"]["result"]["oneOf"][0]["properties"]["cost"]["maximum"]
        == 7
    )
    assert b"secret" not in orjson.dumps(document)


def test_the_messages_of_the_checked_subjects_carry_the_headers() -> None:
    checked = [
        channel
        for channel in DOCUMENT["channels"].values()
        if channel["address"] in CHECKED_SUBJECTS
    ]
    assert len(checked) == len(CHECKED_SUBJECTS)
    for channel in checked:
        assert all("headers" in find(message["$ref"]) for message in channel["messages"].values())
    assert "headers" not in DOCUMENT["components"]["messages"]["alert"]


@pytest.mark.parametrize("header", sorted({rule.header for rule in RULES if not rule.is_always}))
def test_a_header_that_the_schema_refuses_breaks_a_rule(header: str) -> None:
    validator = jsonschema_rs.Draft202012Validator(build_headers_schema())
    good = {"Nats-Msg-Id": "m-1", "trace_id": "t-1"}
    for value in (
        "",
        "1",
        "1.0",
        "v1",
        "v2",
        "cp1",
        "cp3",
        "acme",
        f"00-{32 * 'a'}-{16 * 'b'}-01",
        "00-x",
        "a b",
    ):
        headers = {**good, header: value}
        assert validator.is_valid(headers) or violations(headers)
        assert not violations(headers) or not validator.is_valid(headers)
    assert not validator.is_valid({"trace_id": "t-1"})
    assert validator.is_valid({"Reply-To": "_INBOX.x"})


def test_the_headers_schema_has_every_rule() -> None:
    schema = build_headers_schema()
    rules = [rule for rule in RULES if not rule.is_always]
    assert {rule.header for rule in rules} == set(schema["properties"])
    assert all(rule.says in schema["properties"][rule.header]["description"] for rule in rules)


@pytest.mark.parametrize(
    ("notation", "required", "known"),
    [
        ("{}", [], set()),
        ("{tenant_id?}", [], {"tenant_id"}),
        (
            "{tenant_id, policy_id, version?}",
            ["tenant_id", "policy_id"],
            {"tenant_id", "policy_id", "version"},
        ),
        (
            "{tenant_id, request_id or message_id}",
            ["tenant_id"],
            {"tenant_id", "request_id", "message_id"},
        ),
        (
            "a registry entry {id, type, subject, …}; beside it replaces? (0)",
            ["id", "type", "subject"],
            {"id", "type", "subject"},
        ),
    ],
)
def test_the_notation_of_a_service_is_read_as_a_schema(
    notation: str, required: list[str], known: set[str]
) -> None:
    schema = build_request(notation)
    assert (schema.get("required", []), set(schema["properties"])) == (required, known)


def test_a_service_answers_with_its_fields_or_with_an_error() -> None:
    success, failure = build_response("{ok, policies[{tenant_id, hash}], version}")["oneOf"]
    assert success["properties"] == {
        "ok": {"const": True},
        "policies": {"type": "array"},
        "version": {},
    }
    assert failure["required"] == ["ok", "error"]


def test_subjects_of_channels_are_literal_once_their_parameters_are_given() -> None:
    for channel in DOCUMENT["channels"].values():
        if channel["address"] is not None:
            assert ids.is_literal_subject(channel["address"].replace("{", "").replace("}", ""))
