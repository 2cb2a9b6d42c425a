"""What the doctor finds of the gateway's keys."""

import json
from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from router.core.clock import now_ms
from router.gateway.keys.finding import judge_keys
from router.gateway.keys.model.api_key import ApiKey, make_key
from tests.support.broker import Broker
from tests.support.cli import call_command

NOW = now_ms()
DAY_MS = 86_400_000


def a_key(days: int | None = None, tenant: str = "acme", begun: int = NOW) -> ApiKey:
    ends = None if days is None else NOW + days * DAY_MS
    return make_key(tenant, begun, expires_ms=ends).key


ENDED = a_key(-1, begun=NOW - 2 * DAY_MS)


@pytest.mark.parametrize(
    ("keys", "unread", "verdict", "words"),
    [
        ((), (), "ok", "none: no HTTP client is let in"),
        ((a_key(), a_key(30, "b")), (), "ok", "2 in force, of 2 tenants"),
        ((ENDED, a_key()), (), "ok", "1 in force, of 1 tenant"),
        ((a_key(3), a_key()), (), "warn", "1 of 2 end within 7 days"),
        ((ENDED,), (), "warn", "every one has ended (1)"),
        ((), ("0f3a9c21b7d4",), "warn", "cannot be read: 0f3a9c21b7d4"),
    ],
    ids=("none", "in-force", "one-ended", "one-ends-soon", "all-ended", "unread"),
)
def test_a_finding_says_who_is_let_in(
    keys: Sequence[ApiKey], unread: Sequence[str], verdict: str, words: str
) -> None:
    (finding,) = judge_keys(keys, unread, NOW)
    assert (finding.verdict.value, words in finding.found) == (verdict, True)
    assert bool(finding.remedy) == (verdict == "warn")


def test_a_key_that_was_rotated_is_meant_to_end() -> None:
    new = a_key()
    old = make_key("acme", NOW, expires_ms=NOW + DAY_MS).key
    rotated = replace(old, replaced_by=new.key_id)
    (finding,) = judge_keys([rotated, new], (), NOW)
    assert finding.verdict.value == "ok"


def test_many_are_told_by_their_number() -> None:
    (finding,) = judge_keys([a_key(1) for _ in range(5)], (), NOW)
    assert finding.found.endswith(" and 2 more")


def test_the_doctor_says_it_once_the_bucket_is_there() -> None:
    with Broker() as broker:
        asked = ("--nats-url", broker.url)
        assert "gateway keys" not in call_command("doctor", *asked).out
        for command in (("topology", "apply"), ("key", "create", "acme")):
            assert call_command(*command, *asked).status == 0
        told = call_command("doctor", *asked, "--json").out.splitlines()
    (found,) = [line for line in told if "gateway keys" in line]
    assert json.loads(found)["found"] == "1 in force, of 1 tenant"
