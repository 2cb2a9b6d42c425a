"""A registry entry is read whole or refused whole, and every mistake is told with its place."""

import json
from typing import Any

import pytest

from router.extensions.model import (
    EntryError,
    ExtensionInstance,
    VersionRules,
    load_entry,
    parse_entry,
)
from tests.support.registry import a_version, an_entry, find_mistake_paths, find_mistakes


def test_what_is_not_said_has_its_default() -> None:
    entry = parse_entry(an_entry())
    assert (entry.timeout_ms, entry.retry, entry.enabled, entry.config, entry.metadata) == (
        1500,
        0,
        True,
        {},
        {},
    )
    assert parse_entry(an_entry(kind="provider")).timeout_ms == 5000
    (version,) = entry.list_versions()
    assert (version.version, version.subject) == ("v1", "beamline.ext.validate.guard.v1")


@pytest.mark.parametrize(
    ("kind", "subject"),
    [
        ("pre", "beamline.ext.pre.x-1_Y.v2"),
        ("validator", "beamline.ext.validate.x-1_Y.v2"),
        ("post", "beamline.ext.post.x-1_Y.v2"),
        ("provider", "beamline.provider.x-1_Y.v2"),
    ],
)
def test_every_kind_has_its_subject(kind: str, subject: str) -> None:
    assert parse_entry({"id": "x-1_Y", "type": kind, "subject": subject}).subject == subject


@pytest.mark.parametrize(
    "subject",
    [
        "beamline.ext.validate.guard",
        "beamline.ext.validate.guard.",
        "beamline.ext.validate.guard.v1.more",
        "beamline.ext.validate.guard.*",
        "beamline.ext.validate.guard.>",
        "beamline.ext.validate.guard.v 1",
        "beamline.ext.validate.other.v1",
        "beamline.ext.validator.guard.v1",
        "beamline.ext.pre.guard.v1",
        "beamline.provider.guard.v1",
        "$SYS.REQ",
        "",
        7,
        ["beamline.ext.validate.guard.v1"],
    ],
)
def test_a_subject_that_does_not_agree_with_kind_and_id_is_refused(subject: object) -> None:
    ((path, message),) = find_mistakes(an_entry(subject=subject))
    assert path == "subject"
    assert message.endswith("is not beamline.ext.validate.guard.{version}")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"timeout_ms": 9}, "timeout_ms"),
        ({"timeout_ms": 60_001}, "timeout_ms"),
        ({"timeout_ms": 10.5}, "timeout_ms"),
        ({"timeout_ms": True}, "timeout_ms"),
        ({"retry": -1}, "retry"),
        ({"retry": 4}, "retry"),
        ({"enabled": "yes"}, "enabled"),
        ({"config": []}, "config"),
        ({"metadata": "x"}, "metadata"),
        ({"config": {"x": "y" * 65_529}}, "config"),
        ({"metadata": {"x": "y" * 65_536}}, "metadata"),
        ({"type": "preprocessor"}, "type"),
        ({"type": ["pre"]}, "type"),
        ({"id": "a.b"}, "id"),
        ({"id": "x" * 65}, "id"),
        ({"id": ">"}, "id"),
        ({"owner": "me"}, "owner"),
        ({"versions": [a_version(timeout_ms=5)]}, "versions[0].timeout_ms"),
        ({"versions": [a_version("v1"), a_version("v1")]}, "versions[1].version"),
        (
            {"versions": [a_version("v1", default=True), a_version("v2", default=True)]},
            "versions[1].default",
        ),
        (
            {"versions": [{**a_version("v1"), "subject": "beamline.ext.validate.guard.v2"}]},
            "versions[0].subject",
        ),
        ({"versions": [{"version": "v1"}]}, "versions[0].subject"),
        ({"versions": [a_version(rules={"tenant_id": "acme"})]}, "versions[0].rules.tenant_id"),
        ({"versions": [a_version(rules={"tenant_id": []})]}, "versions[0].rules.tenant_id"),
        (
            {"versions": [a_version(rules={"tenant_id": [f"t{n}" for n in range(65)]})]},
            "versions[0].rules.tenant_id",
        ),
        (
            {"versions": [a_version(rules={"policy_id": ["a", "b c"]})]},
            "versions[0].rules.policy_id[1]",
        ),
        ({"versions": [a_version(rules={"region": ["eu"]})]}, "versions[0].rules.region"),
        (
            {"versions": [a_version(instances=[{"id": "a", "weight": 0}])]},
            "versions[0].instances[0].weight",
        ),
        (
            {"versions": [a_version(instances=[{"id": "a", "weight": 101}])]},
            "versions[0].instances[0].weight",
        ),
        (
            {"versions": [a_version(instances=[{"id": "a"}, {"id": "a"}])]},
            "versions[0].instances[1].id",
        ),
        (
            {"versions": [a_version(instances=[{"id": "a", "subject": "elsewhere.a"}])]},
            "versions[0].instances[0].subject",
        ),
        (
            {
                "versions": [
                    a_version(
                        instances=[{"id": "a", "subject": "beamline.ext.validate.guard.v1.>"}]
                    )
                ]
            },
            "versions[0].instances[0].subject",
        ),
        ({"versions": [a_version()], "instances": [{"id": "a"}]}, "instances"),
        ({"versions": {}}, "versions"),
        ({"versions": [a_version(f"v{n}") for n in range(65)]}, "versions"),
    ],
)
def test_a_mistake_is_told_with_its_place(fields: dict[str, Any], path: str) -> None:
    assert path in find_mistake_paths({**an_entry(), **fields})


def test_everything_that_is_wrong_is_told_at_once() -> None:
    assert find_mistake_paths(
        {"id": "guard", "type": "pre", "timeout_ms": 1, "retry": 9, "x": 1}
    ) == ["subject", "timeout_ms", "retry", "x"]


def test_an_empty_document_lacks_id_type_and_subject() -> None:
    assert find_mistake_paths({}) == ["id", "type", "subject"]


def test_with_versions_the_entry_needs_no_subject_of_its_own() -> None:
    assert parse_entry(an_entry(versions=[a_version("v1"), a_version("v2")])).subject is None


def test_an_entry_must_be_stored_under_its_own_id() -> None:
    assert find_mistake_paths(an_entry(), stored_as="other") == ["id"]
    assert find_mistakes(an_entry(), stored_as="guard") == []


def test_the_provider_that_the_specifications_own_is_taken() -> None:
    assert find_mistake_paths(an_entry("v1", "provider")) == ["id"]


def test_rules_and_instances_are_read() -> None:
    rules = {"tenant_id": ["acme"], "environment": ["prod"], "policy_id": ["a", "b"]}
    instances = [
        {"id": "blue", "weight": 3},
        {"id": "green", "subject": "beamline.ext.validate.guard.v1.eu.green", "enabled": False},
    ]
    (version,) = parse_entry(
        an_entry(versions=[a_version(rules=rules, instances=instances)])
    ).versions
    assert version.rules == VersionRules(
        frozenset({"acme"}), frozenset({"prod"}), frozenset({"a", "b"})
    )
    assert version.instances == (
        ExtensionInstance("blue", "beamline.ext.validate.guard.v1.blue", 3, enabled=True),
        ExtensionInstance("green", "beamline.ext.validate.guard.v1.eu.green", 100, enabled=False),
    )


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff",
        b"null",
        b"[" * 200_000,
        b'{"id": "guard", "x": "' + b"y" * 300_000 + b'"}',
        b'{"config":' * 900 + b"1",
    ],
)
def test_bytes_that_are_no_entry_are_refused(data: bytes) -> None:
    with pytest.raises(EntryError):
        load_entry(data)


def test_a_document_that_is_too_large_is_not_even_read() -> None:
    data = json.dumps(an_entry()).encode().ljust(262_144)
    assert load_entry(data) == parse_entry(an_entry())
    with pytest.raises(EntryError, match="entry: is larger than 262144 bytes"):
        load_entry(data + b" ")


@pytest.mark.parametrize("key", ["config", "type", "anything"])
def test_a_document_that_nests_too_deep_is_refused(key: str) -> None:
    deep = (
        json.dumps(an_entry()).encode()[:-1]
        + b', "%b": ' % key.encode()
        + b'{"a":' * 500
        + b"1"
        + b"}" * 500
        + b"}"
    )
    with pytest.raises(EntryError, match="entry: is nested deeper than 64"):
        load_entry(deep)


def test_a_config_that_nests_too_deep_to_be_written_is_refused() -> None:
    deep: object = 1
    for _ in range(300):
        deep = [deep]
    assert find_mistakes(an_entry(config={"a": deep})) == [("config", "nests too deep")]


@pytest.mark.parametrize(
    "fields",
    [
        {"timeout_ms": 10},
        {"timeout_ms": 60_000},
        {"retry": 3},
        {"versions": [a_version(instances=[{"id": "a", "weight": 1}, {"id": "b", "weight": 100}])]},
        {"versions": [a_version(f"v{n}") for n in range(64)]},
        {"versions": [a_version(rules={"tenant_id": [f"t{n}" for n in range(64)]})]},
        {"config": {"x": "y" * 65_528}},
    ],
)
def test_the_bounds_themselves_are_legal(fields: dict[str, Any]) -> None:
    assert find_mistake_paths({**an_entry(), **fields}) == []
