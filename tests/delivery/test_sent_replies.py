"""What instances tell one another of requests that they answered from a passing copy."""

import asyncio

import pytest

from router.delivery.replies.sent_replies import KEEP_S, MAX_LINE_LENGTH, SentReplies


class Wire:
    """Two instances; what one tells, both hear."""

    def __init__(self) -> None:
        self.told: list[bytes] = []
        self.one, self.two = SentReplies(self._tell), SentReplies(self._tell)

    def _tell(self, data: bytes) -> None:
        self.told.append(data)
        self.one.on_answered(data)
        self.two.on_answered(data)


async def test_what_one_answered_the_other_knows_at_the_end_of_the_loops_iteration() -> None:
    wire = Wire()
    wire.one.note("_INBOX.a", b"1")
    wire.one.note("_INBOX.b", b"2")
    assert not wire.two.is_used
    await asyncio.sleep(0)
    assert len(wire.told) == 1
    for instance in (wire.one, wire.two):
        assert instance.has("_INBOX.a", b"1", 0.0)
        assert instance.has("_INBOX.b", b"2", 0.0)
        assert not instance.has("_INBOX.a", b"2", 0.0)  # an inbox may be used for many requests


async def test_the_same_bytes_asked_again_later_through_the_same_inbox_are_another_request() -> (
    None
):
    now = 100.0
    live = SentReplies(lambda _: None, lambda: now)
    live.note("_INBOX.a", b"1")
    assert live.has("_INBOX.a", b"1", 99.9)
    assert not live.has("_INBOX.a", b"1", 100.1)
    assert (live.has_request(b"1", 99.9), live.has_request(b"1", 100.1)) == (True, False)


async def test_an_instance_that_begins_with_passing_copies_says_so_before_it_answers_one() -> None:
    """Else the other one would not tell what it answers, and both would answer what came first."""
    wire = Wire()
    wire.one.tick(100.0)
    wire.two.tick(100.0)
    wire.one.switch(True)
    assert (wire.two.is_used, wire.two.is_on) == (True, False)
    wire.one.switch(True)  # it is on already
    assert wire.told == [wire.one.instance.encode()]
    wire.two.tick(100.0 + KEEP_S)
    assert wire.two.is_used
    wire.one.switch(False)
    wire.two.tick(100.0 + 2 * KEEP_S)
    assert not wire.two.is_used


async def test_it_is_forgotten_after_a_while() -> None:
    wire = Wire()
    wire.one.tick(100.0)
    wire.one.note("_INBOX.a", b"1")
    wire.one.tick(100.0 + KEEP_S)
    assert wire.one.has("_INBOX.a", b"1", 0.0)
    wire.one.tick(100.0 + 2 * KEEP_S)
    assert (wire.one.has("_INBOX.a", b"1", 0.0), wire.one.is_used) == (False, False)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "1",
        "x _INBOX.a",
        "-1 _INBOX.a",
        "99999999999 _INBOX.a",
        "1 ",
        f"1 _INBOX.{'a' * MAX_LINE_LENGTH}",
        "\udcff",
    ],
)
async def test_a_line_that_is_none_is_passed_over(line: str) -> None:
    live = SentReplies(lambda _: None)
    live.on_answered(f"other\n{line}".encode("utf-8", "surrogateescape"))
    assert not live.is_used


async def test_it_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.delivery.replies.sent_replies.MAX_ANSWERS", 3)
    live = SentReplies(lambda _: None)
    for number in range(10):
        live.on_answered(f"other\n{number} _INBOX.a".encode())
    assert len(live._young) + len(live._old) <= 12
