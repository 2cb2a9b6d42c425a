"""The header contract: the table, and what breaking it yields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts import header_rules
from router.contracts.extract import extract_request_ids
from router.contracts.header_rules import RULES, control_violations, describe, find_rule, violations
from router.contracts.headers import (
    CONTRACT_HEADERS,
    CONTROL_HEADERS,
    MESSAGE_ID,
    SILENCING_HEADERS,
    find_control_header,
    find_silencing_header,
    message_id_in,
    tenant_in,
    trace_in,
    traceparent_in,
)
from tests.support.requests import GOOD_HEADERS, TRACE, TRACEPARENT

# Every row of the table and a header that breaks it alone.
BROKEN = {
    ("trace_id", "empty"): {"trace_id": ""},
    ("trace_id", "malformed"): {"trace_id": "a b"},
    ("tenant_id", "empty"): {"tenant_id": ""},
    ("tenant_id", "malformed"): {"tenant_id": "_shared"},
    ("version", "unsupported"): {"version": "2"},
    ("traceparent", "not_w3c"): {"traceparent": "nonsense"},
    ("cp_phase", "unknown"): {"cp_phase": "cp3"},
    ("Nats-Msg-Id", "missing"): {"Nats-Msg-Id": ""},
    ("Nats-Msg-Id", "malformed"): {"Nats-Msg-Id": "x" * 129},
    ("tenant_id", "mismatch"): {"tenant_id": "other"},
}
# of any request, whatever it carries
REFUSED = [("control headers", "forbidden"), ("headers", "too_large")]


@pytest.mark.parametrize(
    "rule", [rule for rule in RULES if not rule.is_always], ids=lambda rule: rule.code
)
def test_each_rule_of_the_table_is_broken_by_its_header_alone(rule) -> None:
    headers = {**GOOD_HEADERS, **BROKEN[rule.header, rule.name]}
    assert violations(headers, "acme") == ((rule.header, rule.name),)


@pytest.mark.parametrize(
    "headers",
    [{}, {"Nats-Msg-Id": ""}, {"Reply-To": "x", "api_key": "k", "Nats-Expected-Stream": "S"}],
)
def test_no_contract_header_is_the_baseline_and_never_a_violation(headers) -> None:
    assert violations(headers, "acme") == ()


def test_good_headers_break_nothing() -> None:
    assert violations({**GOOD_HEADERS, "traceparent": TRACEPARENT, "cp_phase": "cp2"}, "acme") == ()


def test_a_message_id_is_required_beside_any_contract_header() -> None:
    assert violations({"cp_phase": "cp1"}) == (("Nats-Msg-Id", "missing"),)


def test_an_absent_payload_tenant_is_no_mismatch() -> None:
    assert violations(GOOD_HEADERS, None) == ()


def test_violations_come_in_the_order_of_the_table() -> None:
    every = violations(
        {"trace_id": "", "tenant_id": "", "version": "", "traceparent": "", "cp_phase": ""}, "acme"
    )
    not_empty = {"malformed", "mismatch", "forbidden", "too_large"}
    assert every == tuple((rule.header, rule.name) for rule in RULES if rule.name not in not_empty)


@pytest.mark.parametrize("version", ["1", "1.0", "v1"])
def test_supported_versions_are_no_violation(version) -> None:
    assert violations({**GOOD_HEADERS, "version": version}) == ()


@pytest.mark.parametrize(
    "value",
    [
        f"00-{'0' * 32}-00f067aa0ba902b7-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"ff-{TRACE}-00f067aa0ba902b7-01",
        f"00-{TRACE.upper()}-00f067aa0ba902b7-01",
        f"00-{TRACE}-00f067aa0ba902b7-01-more",
        f"00-{TRACE}-00f067aa0ba902b7-01\n",
        f"00-{TRACE}-00f067aa0ba902b7",
    ],
)
def test_a_traceparent_outside_w3c_is_a_violation_and_counts_as_absent(value) -> None:
    headers = {**GOOD_HEADERS, "traceparent": value}
    assert violations(headers) == (("traceparent", "not_w3c"),)
    assert traceparent_in(headers) is None


@pytest.mark.parametrize(
    "value",
    [
        TRACEPARENT,
        TRACEPARENT.replace("00-", "01-", 1),
        TRACEPARENT.replace("00-", "cc-", 1) + "-later",
    ],
)
def test_later_versions_of_traceparent_are_taken(value) -> None:
    assert traceparent_in({"traceparent": value}) == value


def test_a_malformed_tenant_is_not_compared_with_the_payloads() -> None:
    """It counts as absent, so the payload's holds."""
    assert violations({**GOOD_HEADERS, "tenant_id": "a b"}, "acme") == (("tenant_id", "malformed"),)


@pytest.mark.parametrize("name", sorted(CONTROL_HEADERS))
def test_a_control_header_is_forbidden_also_beside_no_contract_header(name: str) -> None:
    assert control_violations({name: "hunter2"}) == ((name, "forbidden"),)
    assert find_rule((name, "forbidden")).header == "control headers"
    assert find_control_header({"other": "x", name: "hunter2"}) == name
    assert find_silencing_header({name: "x"}) == (name if name in SILENCING_HEADERS else None)


def test_a_malformed_header_counts_as_absent() -> None:
    assert tenant_in({"tenant_id": "../acme"}) is None
    assert tenant_in({"tenant_id": "_shared"}) is None
    assert trace_in({"trace_id": "a b"}) is None
    assert message_id_in({"Nats-Msg-Id": "x" * 129}) is None


def test_the_page_is_made_from_the_table() -> None:
    assert [(header, name) for header, name, _, _ in describe()] == [*BROKEN, *REFUSED]
    assert all(says and subjects for _, _, says, subjects in describe())


_VALUES = st.sampled_from(
    [
        "",
        "a b",
        "_x",
        "x" * 129,
        "é",
        "cp3",
        "00-x",
        "1",
        "1.0",
        "2",
        "acme",
        "globex",
        "cp1",
        "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
    ]
)
_HEADERS = st.dictionaries(
    st.sampled_from([*sorted(CONTRACT_HEADERS), MESSAGE_ID, "other"]), _VALUES
)


@given(_HEADERS, st.none() | _VALUES | st.integers())
def test_headers_that_seem_to_keep_all_rules_keep_them(
    headers: dict[str, str], tenant: object
) -> None:
    """The quick look is never more lenient than the table."""
    quick = violations(headers, tenant)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(header_rules, "_are_plain", lambda *_: False)
        assert quick == violations(headers, tenant)


def test_of_a_request_that_is_too_large_the_ids_of_its_headers_are_read_alone() -> None:
    headers = {"tenant_id": "acme"}
    body = b'{"request_id":"r-1","payload":"%s"}'
    assert extract_request_ids(body % b"x", headers) == {"tenant_id": "acme", "request_id": "r-1"}
    assert extract_request_ids(body % (b"x" * 65_536), headers) == headers
