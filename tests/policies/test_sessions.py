"""The memory of sessions: for its time, within its bound, tenant by tenant."""

from router.policies.model import Sessions


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
