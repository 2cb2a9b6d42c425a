"""The rules of the header contract as one table, RULES: the validator, its page, its tests, `router
explain` and metrics are made from it.

    none of the five contract headers   = the CP1 baseline: only the rules that always hold
    any of them                         = every rule holds for the headers that are there, and
                                        Nats-Msg-Id must be

Breaking a rule does not stop a message; the bad header counts as absent. Which violations do stop
one is the reader's to say.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from router.contracts.field_readers import OPAQUE, SCOPED
from router.contracts.headers import (
    CHECKED_SUBJECTS,
    CONTRACT_HEADERS,
    CP_PHASE,
    MAX_HEADER_BYTES,
    MESSAGE_ID,
    PHASES,
    SUPPORTED_VERSIONS,
    TENANT_ID,
    TRACE_ID,
    TRACEPARENT,
    VERSION_HEADER,
    find_control_header,
    is_traceparent,
)
from router.contracts.shapes.parts import Schema, build_object
from router.core import ids
from router.core.ids import ScopedNames, is_opaque

Violation = tuple[str, str]  # (header, rule): two labels of router_nats_contract_violations_total

CONTROL = "control headers"  # in the table; a violation names the header itself
HEADER_BLOCK = "headers"  # all headers of a message together
FORBIDDEN, TOO_LARGE, MALFORMED, EMPTY = "forbidden", "too_large", "malformed", "empty"
ASKED = CHECKED_SUBJECTS[:1]  # the decide subject


class HeaderRule(Struct, frozen=True, kw_only=True):
    """One line of the contract. `holds` is asked about a value that is there; None: the rule is not
    about one value.
    """

    header: str
    name: str
    says: str  # what the header should be
    # of a header's rules the first one that does not hold is broken
    holds: Callable[[str], object] | None
    usual: str  # why clients break it
    do: str  # what the client's author changes
    is_required: bool = False  # beside any contract header
    is_always: bool = False  # also for a message without a contract header
    subjects: tuple[str, ...] = CHECKED_SUBJECTS

    @property
    def code(self) -> str:
        """Its name for `router explain`."""
        return f"{self.header.replace(' ', '_')}.{self.name}"


_is_tenant = ScopedNames().__getitem__
_SAMPLES = "Leave the header out where there is no value, or send the id that the payload has"

RULES: tuple[HeaderRule, ...] = (
    HeaderRule(
        header=TRACE_ID,
        name=EMPTY,
        says="not empty",
        holds=len,
        usual="The client sets the header from a variable that is empty outside a trace",
        do="Leave the header out where there is no trace",
    ),
    HeaderRule(
        header=TRACE_ID,
        name=MALFORMED,
        says=f"an id: {OPAQUE}",
        holds=is_opaque,
        usual="A whole traceparent list, a sentence, or bytes instead of an id",
        do="Send the id alone; the W3C form belongs into traceparent",
    ),
    HeaderRule(
        header=TENANT_ID,
        name=EMPTY,
        says="not empty",
        holds=len,
        usual="The client sets the header from a variable that is empty",
        do=_SAMPLES,
    ),
    HeaderRule(
        header=TENANT_ID,
        name=MALFORMED,
        says=f"a tenant's id: {SCOPED}",
        holds=_is_tenant,
        usual=(
            "A tenant's name for people instead of its id, or an id with a prefix that no id "
            "may have"
        ),
        do=_SAMPLES,
    ),
    HeaderRule(
        header=VERSION_HEADER,
        name="unsupported",
        says='"1", or "1.0" or "v1" which read as it',
        holds=SUPPORTED_VERSIONS.__contains__,
        usual="The client's own version, or that of a later contract",
        do='Send "1" or leave the header out',
    ),
    HeaderRule(
        header=TRACEPARENT,
        name="not_w3c",
        says="W3C Trace Context",
        holds=is_traceparent,
        usual="A trace id alone, upper case, ids of zeros, or another vendor's form",
        do=(
            "Let a tracing library write the header: "
            "https://www.w3.org/TR/trace-context/#traceparent-header"
        ),
    ),
    HeaderRule(
        header=CP_PHASE,
        name="unknown",
        says="cp1 or cp2",
        holds=PHASES.__contains__,
        usual="A phase in upper case, or of a later contract",
        do="Send cp1 or cp2, or leave the header out",
    ),
    HeaderRule(
        header=MESSAGE_ID,
        name="missing",
        says="there and not empty, beside any contract header",
        holds=len,
        usual="A client of the earlier contract that learned to send trace_id or tenant_id; or "
        "the name in another case"
        " (nats-msg-id), which the server takes for no id",
        do=(
            "Send an id of your own with each message, and the same one when you send the "
            "message again"
        ),
        is_required=True,
    ),
    HeaderRule(
        header=MESSAGE_ID,
        name=MALFORMED,
        says=f"an id: {OPAQUE}",
        holds=is_opaque,
        usual="A text with spaces, or one that is too long",
        do="Send a UUID, or any id of that form",
    ),
    HeaderRule(
        header=TENANT_ID,
        name="mismatch",
        says="the payload's tenant, if both are given; the header's holds",
        holds=None,
        usual=(
            "A gateway that sets the header for all its clients, or a payload that was copied "
            "from another tenant"
        ),
        do="Send one tenant, in the header or in the payload",
    ),
    HeaderRule(
        header=CONTROL,
        name=FORBIDDEN,
        says="absent: JetStream's control headers are not a requester's",
        holds=None,
        usual=(
            "A client that publishes with options of JetStream (Nats-TTL, Nats-Expected-…, "
            "Nats-Rollup, a batch, a schedule)"
        ),
        do=(
            "Send requests without JetStream's options, or set reply.confirm to stored if "
            "publishers shall have them"
        ),
        is_always=True,
        subjects=ASKED,
    ),
    HeaderRule(
        header=HEADER_BLOCK,
        name=TOO_LARGE,
        says=f"at most {MAX_HEADER_BYTES} bytes, all headers together",
        holds=None,
        usual="Cookies, or a whole context, passed on as headers",
        do="Send what is large in the payload",
        is_always=True,
        subjects=ASKED,
    ),
)

MISMATCH: Violation = (TENANT_ID, "mismatch")
BLOCK_TOO_LARGE: Violation = (HEADER_BLOCK, TOO_LARGE)
# The table as the loop below reads it, a header at a time: plain tuples, since this runs for every
# message that is not plainly right.
_BY_VALUE = tuple(
    (
        header,
        tuple(
            ((header, rule.name), rule.holds)
            for rule in RULES
            if rule.header == header and rule.holds is not None
        ),
    )
    for header in dict.fromkeys(rule.header for rule in RULES if rule.holds is not None)
)
_REQUIRED = {rule.header: (rule.header, rule.name) for rule in RULES if rule.is_required}
_BY_NAME = {(rule.header, rule.name): rule for rule in RULES}


def violations(headers: Mapping[str, str], payload_tenant: object = None) -> tuple[Violation, ...]:
    """Every rule of the contract headers that these break, in the table's order; never a value,
    which may be a secret.
    """
    if not headers or _are_plain(headers, payload_tenant) or CONTRACT_HEADERS.isdisjoint(headers):
        return ()
    broken: list[Violation] = []
    for header, rules in _BY_VALUE:
        value = headers.get(header)
        if value is None:
            if header in _REQUIRED:
                broken.append(_REQUIRED[header])
            continue
        for violation, holds in rules:
            if not holds(value):
                broken.append(violation)
                break
    tenant = headers.get(TENANT_ID)
    if tenant and payload_tenant and tenant != payload_tenant and _is_tenant(tenant):
        broken.append(MISMATCH)
    return tuple(broken)


def control_violations(headers: Mapping[str, str]) -> tuple[Violation, ...]:
    """The control header that a request may not have, if it has one: also of a message without a
    contract header.
    """
    control = find_control_header(headers)
    return () if control is None else ((control, FORBIDDEN),)


def find_rule(violation: Violation) -> HeaderRule:
    """The line of the table that is broken. Raises KeyError for what is none."""
    return _BY_NAME[CONTROL if violation[1] == FORBIDDEN else violation[0], violation[1]]


def _are_plain(headers: Mapping[str, str], payload_tenant: object) -> bool:
    """Whether these keep all rules, in a third of the time of the table. False: the table says it;
    a test compares both.
    """
    get = headers.get
    message_id = get(MESSAGE_ID)
    if (
        not message_id
        or get(VERSION_HEADER, "1") not in SUPPORTED_VERSIONS
        or get(CP_PHASE, "cp1") not in PHASES
    ):
        return False
    tenant, trace_id, parent = get(TENANT_ID), get(TRACE_ID), get(TRACEPARENT)
    if tenant is not None and not (
        _is_tenant(tenant) and (not payload_tenant or tenant == payload_tenant)
    ):
        return False
    if trace_id is not None and not is_opaque(trace_id):
        return False
    return is_opaque(message_id) and (parent is None or is_traceparent(parent) is not None)


def describe() -> Iterator[tuple[str, str, str, tuple[str, ...]]]:
    """The contract for a page or a test: (header, rule, what it says, subjects)."""
    for rule in RULES:
        yield rule.header, rule.name, rule.says, rule.subjects


_ID: Schema = {"type": "string", "pattern": f"^{ids.OPAQUE_PATTERN}$"}
_VALUES: Mapping[str, Schema] = {
    TRACE_ID: _ID,
    TENANT_ID: {"type": "string", "pattern": f"^{ids.SCOPED_PATTERN}$"},
    MESSAGE_ID: _ID,
    VERSION_HEADER: {"enum": sorted(SUPPORTED_VERSIONS)},
    CP_PHASE: {"enum": sorted(PHASES)},
    TRACEPARENT: {
        "type": "string",
        "pattern": "^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}",
    },
}


def build_headers_schema() -> dict[str, Any]:
    """Beside any contract header, every rule holds and a Nats-Msg-Id is there. What is refused of
    any message has no line here.
    """
    words: dict[str, list[str]] = {}
    for rule in (rule for rule in RULES if not rule.is_always):
        words.setdefault(rule.header, []).append(rule.says)
    properties = {
        header: {**_VALUES[header], "description": "; ".join(says)}
        for header, says in words.items()
    }
    has_any = {"anyOf": [{"required": [header]} for header in sorted(CONTRACT_HEADERS)]}
    needed = [rule.header for rule in RULES if rule.is_required]
    return {**build_object(properties), "if": has_any, "then": {"required": needed}}
