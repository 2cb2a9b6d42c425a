"""New envelopes, and the key by which one message is known from another."""

from hashlib import sha256
from typing import Any

import pytest

from router.bus.publisher import key_of, make_envelope
from router.contracts.envelope import envelope_bytes, read_envelope
from router.contracts.malformed import Malformed
from router.core.clock import now_ms
from tests.support.bus import an_envelope


def test_a_new_envelope_is_of_the_current_version_now_and_has_its_key() -> None:
    """SR-26: producers always include schema_version; SR-2, SR-3, SR-21."""
    made = an_envelope(7)
    assert (made.schema_version, made.message_type, made.message_id) == (
        "1.0",
        "LoopCreated",
        "evt_7",
    )
    assert abs(made.created_at.timestamp() * 1000 - now_ms()) < 10_000
    assert made.timestamp.endswith("Z")
    assert made.idempotency_key == key_of("LoopCreated", "evt_7", "user_1", {"n": 7})
    assert read_envelope(envelope_bytes(made)) == made


def test_a_key_that_is_given_is_kept() -> None:
    """SR-10: the outbox knows its message's hash."""
    assert an_envelope(idempotency_key="sha256:outbox").idempotency_key == "sha256:outbox"


def test_the_key_is_the_hash_of_the_canonical_json() -> None:
    """SR-10, X2: a value worked out by hand, so that another language can be held to it."""
    by_hand = '["LoopCreated","evt_1","user_1",{"a":"é","b":[1e+21,0]}]'.encode()
    assert (
        key_of("LoopCreated", "evt_1", "user_1", {"b": [1e21, -0.0], "a": "é"})
        == "sha256:" + sha256(by_hand).hexdigest()
    )


def test_what_a_database_does_to_json_does_not_change_the_key() -> None:
    """X2: JSONB orders keys and rewrites numbers."""
    assert key_of("T", "m", "a", {"x": 1.0, "y": 2}) == key_of("T", "m", "a", {"y": 2.0, "x": 1})


@pytest.mark.parametrize(
    "other",
    [("U", "m", "a", {}), ("T", "n", "a", {}), ("T", "m", "b", {}), ("T", "m", "a", {"x": None})],
)
def test_type_id_actor_and_payload_are_all_part_of_the_key(
    other: tuple[str, str, str, dict[str, Any]],
) -> None:
    """SR-10, X2."""
    assert key_of(*other) != key_of("T", "m", "a", {})


@pytest.mark.parametrize(
    ("facts", "field"),
    [
        ({"payload": {"x": float("nan")}}, "payload"),
        ({"payload": {"x": b"bytes"}}, "payload"),
        ({"payload": {"x": 10**400}}, "payload"),
        ({"payload": [1]}, "payload"),
        ({"actor_kind": "ROBOT"}, "actor_kind"),
        ({"message_id": "two words"}, "message_id"),
        ({"timestamp": "now"}, "timestamp"),
    ],
)
def test_nothing_is_made_that_a_consumer_would_refuse(
    facts: dict[str, Any], field: str | None
) -> None:
    """SR-26: only what is supported is emitted."""
    given: dict[str, Any] = {
        "message_type": "T",
        "payload": {},
        "message_id": "m",
        "actor_id": "a",
        "actor_kind": "AGENT",
    }
    with pytest.raises(Malformed) as refused:
        make_envelope(**{**given, **facts})
    assert refused.value.field == field
