"""Any bytes in the registry parse as an entry that can be called, or raise an EntryError; nothing
else.
"""

import contextlib
from typing import Any

import orjson
from hypothesis import given
from hypothesis import strategies as st

from router.core import ids
from router.extensions.model import (
    EntryError,
    ExtensionEntry,
    ExtensionRegistry,
    load_entry,
    parse_entry,
)
from tests.support.registry import a_version, an_entry

KEYS = [
    "id",
    "type",
    "subject",
    "timeout_ms",
    "retry",
    "enabled",
    "config",
    "metadata",
    "versions",
    "instances",
]
INNER = [
    "version",
    "subject",
    "enabled",
    "rules",
    "default",
    "instances",
    "id",
    "weight",
    "tenant_id",
    "environment",
    "policy_id",
    "x",
]
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 70_000),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.sampled_from(
        [
            "guard",
            "validator",
            "provider",
            "v1",
            "beamline.ext.validate.guard.v1",
            "beamline.ext.validate.guard.v1.a",
            "elsewhere",
            "acme",
        ]
    ),
)
ANYTHING = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(INNER) | st.text(max_size=3), inner, max_size=4)
    ),
)


@given(st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=3), ANYTHING))
def test_any_object_is_an_entry_or_refused(document: dict[str, Any]) -> None:
    _read({**an_entry(), **document})
    _read(document)


@given(
    st.dictionaries(st.sampled_from(INNER), ANYTHING),
    st.dictionaries(st.sampled_from(INNER), ANYTHING),
)
def test_any_version_and_instance_is_read_or_refused(
    version: dict[str, Any], instance: dict[str, Any]
) -> None:
    _read(
        an_entry(
            versions=[
                a_version(
                    **{name: value for name, value in version.items() if name not in ("version",)}
                )
            ]
        )
    )
    _read(an_entry(versions=[a_version(instances=[{"id": "a", **instance}])]))


@given(LEAVES, LEAVES)
def test_wherever_an_entry_leads_it_is_its_own_subject(subject: object, instance: object) -> None:
    _read(an_entry(subject=subject))
    _read(an_entry(instances=[{"id": "a", "subject": instance}]))


@given(st.binary(max_size=200))
def test_any_bytes_are_an_entry_or_refused(data: bytes) -> None:
    with contextlib.suppress(EntryError):
        load_entry(data)


def _read(document: object) -> None:
    try:
        entry = parse_entry(document)
    except EntryError:
        return
    _check_calls(entry)
    assert parse_entry(orjson.loads(orjson.dumps(document))) == entry


def _check_calls(entry: ExtensionEntry) -> None:
    """Wherever a call goes, it goes to a literal subject of the extension's own."""
    registry = ExtensionRegistry([entry])
    for tenant in ("acme", "other"):
        route = registry.find(
            entry.id, kind=entry.kind, tenant_id=tenant, policy_id="default", key="k"
        )
        assert route is None or (
            ids.is_literal_subject(route.subject) and f".{entry.id}." in route.subject
        )
