"""The extensions that come with the package, as functions; `tests/cli/test_extension_author.py`
serves them.
"""

import pytest

from router.contracts.extension import ExtensionMessage
from router.contracts.raw_json import RawJson
from router.sdk.extension import Invocation, Output, Refused, Request, Response
from router.sdk.samples.extensions.echo_provider import echo
from router.sdk.samples.extensions.mask_payload import mask_payload
from router.sdk.samples.extensions.mask_pii import mask_pii
from router.sdk.samples.extensions.normalize_text import normalize_text
from router.sdk.samples.extensions.pii_guard import pii_guard

CARD = "4111 1111 1111 1111"


def test_text_is_normalised_wherever_it_stands() -> None:
    payload = {"text": "  Hello \n World ", "parts": ["A  b", 7]}
    assert normalize_text(Request.from_payload(payload)) == (
        {"text": "Hello World", "parts": ["A b", 7]},
        {"normalized": "true"},
    )


def test_text_is_in_lower_case_only_where_the_policy_says_so() -> None:
    assert normalize_text(Request.from_payload("Hi", config={"lowercase": True}))[0] == "hi"
    assert normalize_text(Request.from_payload("Hi"))[0] == "Hi"


@pytest.mark.parametrize(
    ("payload", "pattern"),
    [
        ("write to a.b+c@mail.example.org now", "email"),
        ({"deep": [{"card": CARD}]}, "credit_card"),
        ("ssn 123-45-6789", "ssn"),
        ({"a@b.example": 1}, "email"),
    ],
)
def test_personal_data_is_rejected_naming_the_pattern_alone(payload: object, pattern: str) -> None:
    rejection = pii_guard(Request.from_payload(payload))
    assert (rejection.reason, rejection.details) == (
        "pii_detected",
        {"field": "payload", "pattern": pattern},
    )


@pytest.mark.parametrize(
    "payload", ["hello", 4111111111111111, "order 1234567890123456", "a@b", None]
)
def test_what_only_looks_like_it_passes(payload: object) -> None:
    assert pii_guard(Request.from_payload(payload)) is None


def test_a_policy_may_allow_a_pattern() -> None:
    assert pii_guard(Request.from_payload("a@b.example", config={"allow": ["email"]})) is None


def test_personal_data_is_masked_and_the_context_hears_which_kinds() -> None:
    payload = {"text": f"a@b.example pays with {CARD}, order 1234567890123456", "a@b.example": 1}
    masked = {"text": "[email] pays with [credit_card], order 1234567890123456", "[email]": 1}
    assert mask_payload(Request.from_payload(payload)) == Response(
        payload=masked, metadata={"pii_masked": "credit_card,email"}, message_metadata={}
    )
    assert (
        mask_payload(
            Request.from_payload(payload, config={"allow": ["email", "credit_card"]})
        ).payload
        == payload
    )
    assert mask_payload(Request.from_payload("hello")).metadata == {"pii_masked": "none"}


@pytest.mark.parametrize("payload", [b"\xff a@b.example", {"a@b.example": 1, "c@d.example": 2}])
def test_what_cannot_be_masked_is_refused(payload: object) -> None:
    with pytest.raises(Refused):
        mask_payload(Request.from_payload(payload))


def test_a_key_of_the_messages_metadata_cannot_be_masked() -> None:
    message = ExtensionMessage(payload=RawJson.encode("hello"), metadata={"a@b.example": 1})
    with pytest.raises(Refused):
        mask_payload(Request(tenant_id="acme", message=message))


def test_a_decision_hears_which_kinds_its_assignment_carries() -> None:
    assert mask_pii(Request.from_payload({"text": f"a@b.example pays with {CARD}"})) == {
        "pii_found": "credit_card,email"
    }
    assert mask_pii(Request.from_payload("order 1234567890123456")) == {"pii_found": "none"}


async def test_an_echo_says_what_it_was_told_word_by_word() -> None:
    said = [
        piece
        async for piece in echo(Invocation.from_prompt("good day", parameters={"prefix": "You: "}))
    ]
    assert "".join(piece for piece in said if isinstance(piece, str)) == "You: good day"
    assert said[-1] == Output(prompt_tokens=2, completion_tokens=3, cost=0.0)
