"""A key's text and document, and the table that finds it (docs/how-to/gateway-keys.md)."""

import hmac
from typing import Any

import pytest
from msgspec import to_builtins
from msgspec.structs import replace

from router.core import ids
from router.gateway.keys.model.api_key import (
    MAX_LIFE_MS,
    ApiKey,
    ApiKeyError,
    KeyTable,
    MadeKey,
    list_key_values,
    make_key,
    read_key,
    read_key_id,
)
from router.policies.model.policy import RateLimit

NOW = 1_800_000_000_000
DAY = 86_400_000


def a_key(**fields: Any) -> MadeKey:
    return make_key("acme", NOW, **fields)


def table_of(*keys: ApiKey) -> KeyTable:
    table = KeyTable()
    table.replace(keys)
    return table


def test_the_text_has_the_id_and_a_secret_whose_hash_alone_is_kept() -> None:
    made = a_key()
    prefix, key_id, secret = made.text.split("_")
    assert (prefix, key_id, len(secret), len(made.text)) == ("rk", made.key.key_id, 64, 80)
    assert made.key.secret_sha256 == ids.sha256_hex(secret.encode())
    assert secret not in repr(to_builtins(made.key))
    assert len({a_key().text for _ in range(100)}) == 100


def test_a_key_is_found_by_its_whole_text_alone() -> None:
    made, other = a_key(), a_key()
    table = table_of(made.key, other.key)
    assert table.find(made.text, NOW) == made.key
    last = "0" if made.text[-1] != "0" else "1"
    for wrong in (
        "",
        made.text[:-1],
        made.text[:-1] + last,
        made.text + "0",
        made.text.upper(),
        f" {made.text}",
        made.text.replace("_", "-"),
        f"rk_{other.key.key_id}_{made.text[16:]}",
        f"rk_{'0' * 12}_{made.text[16:]}",
        made.text[:-1] + "é",
        "rk_" + "\ud800" * 77,
        "x" * 10_000_000,
    ):
        assert table.find(wrong, NOW) is None


def test_before_the_table_is_filled_and_after_a_key_is_taken_out_it_is_refused() -> None:
    made, table = a_key(), KeyTable()
    assert table.find(made.text, NOW) is None
    table.replace([made.key])
    assert table.find(made.text, NOW) is not None
    table.replace([])
    assert (table.find(made.text, NOW), len(table)) == (None, 0)


def test_a_key_ends_at_its_time() -> None:
    made = a_key(expires_ms=NOW + DAY)
    table = table_of(made.key)
    assert table.find(made.text, NOW + DAY - 1) == made.key
    assert table.find(made.text, NOW + DAY) is None


@pytest.mark.parametrize("is_known", [True, False])
def test_an_unknown_id_is_compared_as_a_known_one_is(
    monkeypatch: pytest.MonkeyPatch, *, is_known: bool
) -> None:
    made, other = a_key(), a_key()
    compared: list[tuple[int, int]] = []
    compare = hmac.compare_digest

    def note(one: str, two: str) -> bool:
        compared.append((len(one), len(two)))
        return compare(one, two)

    monkeypatch.setattr(hmac, "compare_digest", note)
    wrong = f"rk_{made.key.key_id}_{other.text[16:]}"
    assert table_of(*([made.key] if is_known else [])).find(wrong, NOW) is None
    assert compared == [(64, 64)]


@pytest.mark.parametrize("text", ["", "rk_", "rk_" + "g" * 12 + "_" + "0" * 64, "rk-" + "0" * 77])
def test_what_has_not_the_shape_of_a_key_has_no_id(text: str) -> None:
    assert read_key_id(text) is None
    made = a_key()
    assert read_key_id(made.text) == made.key.key_id


def test_what_is_written_is_read_again() -> None:
    made = a_key(
        name="Rechnungen für Ann",
        expires_ms=NOW + MAX_LIFE_MS,
        policies=["default"] * 64,
        rate=RateLimit(0.001, 1),
        replaces="0" * 12,
    )
    document = to_builtins(made.key)
    assert read_key(document, made.key.key_id) == made.key
    assert "secret_sha256" not in list_key_values(made.key)
    assert made.key.secret_sha256 not in repr(list_key_values(made.key))


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": "x" * 129}, "name: "),
        ({"name": "a\x1b[2J"}, "name: "),
        ({"policies": ["p"] * 65}, "policies: "),
        ({"policies": [""]}, "policies: "),
        ({"policies": ["_shared"]}, "policies: "),
        ({"policies": [f"{n:03}" + "p" * 125 for n in range(64)]}, "policies: the key's document"),
        ({"expires_ms": NOW}, "expires: "),
        ({"expires_ms": NOW + MAX_LIFE_MS + 1}, "expires: "),
        ({"rate": RateLimit(0.0009, 1)}, "rate: "),
        ({"rate": RateLimit(100_001, 1)}, "rate: "),
        ({"rate": RateLimit(float("nan"), 1)}, "rate: "),
        ({"rate": RateLimit(1, 0)}, "rate: "),
        ({"rate": RateLimit(1, 100_001)}, "rate: "),
    ],
)
def test_what_is_not_legal_is_named(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ApiKeyError, match=f"^{says}"):
        a_key(**fields)
    with pytest.raises(ApiKeyError, match=r"^tenant: "):
        make_key(".acme", NOW)


@pytest.mark.parametrize(
    "change",
    [
        {"key_id": "0" * 13},
        {"key_id": "f" * 12},
        {"tenant_id": "a b"},
        {"tenant_id": "acme\n"},
        {"secret_sha256": "0" * 63},
        {"secret_sha256": "0" * 64 + "\n"},
        {"name": 7},
        {"name": "\x1b"},
        {"created_ms": -1},
        {"expires_ms": "never"},
        {"policies": "default"},
        {"policies": ["p"] * 65},
        {"rate": {"requests_per_second": 1.0, "burst": 0}},
        {"rate": {"burst": 1}},
        {"replaced_by": "x"},
        {"only_from": "10.0.0.0/8"},
    ],
)
def test_a_document_that_is_not_understood_whole_is_no_key(change: dict[str, object]) -> None:
    key = replace(a_key().key, key_id="0" * 12)
    assert read_key(to_builtins(key), key.key_id) == key
    with pytest.raises(ApiKeyError):
        read_key({**to_builtins(key), **change}, key.key_id)


def test_a_key_may_name_its_policies_or_any() -> None:
    assert a_key().key.may_name("anything")
    some = a_key(policies=["cheap"]).key
    assert (some.may_name("cheap"), some.may_name("default")) == (True, False)
