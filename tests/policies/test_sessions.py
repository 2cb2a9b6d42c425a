"""The memory of sessions: for its time, within its bound, tenant by tenant."""

import pytest

from router.policies.model import Sessions
from router.policies.model.engine import read_session
from tests.support.policy import a_request


class FrozenClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_choice_is_recalled_until_its_ttl() -> None:
    clock = FrozenClock()
    sessions = Sessions(clock=clock)
    sessions.remember("acme", "p", "short", "a", ttl_s=10)
    sessions.remember("acme", "p", "long", "b", ttl_s=20)
    clock.now = 9.9
    assert (sessions.recall("acme", "p", "short"), sessions.recall("acme", "p", "long")) == (
        "a",
        "b",
    )
    clock.now = 10
    assert (sessions.recall("acme", "p", "short"), sessions.recall("acme", "p", "long")) == (
        None,
        "b",
    )


def test_recalling_does_not_prolong() -> None:
    clock = FrozenClock()
    sessions = Sessions(clock=clock)
    sessions.remember("acme", "p", "s", "a", ttl_s=10)
    for clock.now in range(10):
        assert sessions.recall("acme", "p", "s") == "a"
    clock.now = 10
    assert sessions.recall("acme", "p", "s") is None


def test_neither_tenants_nor_policies_share_a_session() -> None:
    sessions = Sessions()
    sessions.remember("a.b", "c", "s", "x", ttl_s=10)
    assert sessions.recall("a", "b.c", "s") is None
    assert sessions.recall("a.b", "d", "s") is None
    assert sessions.recall("a.b", "c", "s") == "x"


def test_the_session_longest_unused_makes_room() -> None:
    sessions = Sessions(limit=2)
    for session in ("one", "two", "one", "three"):
        if sessions.recall("acme", "p", session) is None:
            sessions.remember("acme", "p", session, "a", ttl_s=10)
    assert len(sessions) == 2
    assert (sessions.recall("acme", "p", "one"), sessions.recall("acme", "p", "two")) == ("a", None)


@pytest.mark.parametrize(
    ("value", "session"),
    [
        ("s-1", "s-1"),
        (7, "7"),
        (0, "0"),
        (2**128 - 1, str(2**128 - 1)),
        (2**128, None),
        ("", None),
        (True, None),
        (1.5, None),
        (None, None),
        ("s" * 256, "s" * 256),
    ],
)
def test_a_session_is_a_text_or_a_whole_number_of_at_most_128_bits(
    value: object, session: str | None
) -> None:
    assert read_session("session", a_request(session=value)) == session
    assert read_session("other", a_request(session=value)) is None


def test_a_longer_session_is_known_by_its_digest() -> None:
    digest = read_session("session", a_request(session="s" * 257))
    assert digest is not None
    assert len(digest) == 64
