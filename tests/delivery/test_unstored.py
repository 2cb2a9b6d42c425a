"""When requests count as not stored: by what is heard, what was delivered, and what the server
tells of the stream.
"""

from typing import Any

from router.delivery.replies.listen import AGAIN_S, BOUND_S, FORGET_S, UnstoredRequests

BEGIN = 1_800_000_000.0
STREAM = "ROUTER_DECIDE"


class Trial:
    """A stream whose last message was stored at BEGIN, as sequence 7."""

    def __init__(self, window_s: float = 0.1) -> None:
        self.now = BEGIN + 100
        self.delivered_at = BEGIN
        self.heard = 0
        self.changes: list[str | None] = []
        self.watch = UnstoredRequests(
            STREAM,
            window_s,
            find_stored_at=lambda: self.delivered_at,
            on_change=self.changes.append,
            clock=lambda: self.now,
        )

    def hear(self) -> None:
        self.heard += 1
        self.watch.look(self.heard)

    def wait(self, seconds: float) -> bool:
        self.now += seconds
        return self.watch.look(self.heard)

    def tell(self, sequence: int = 7, stored: str = "2027-01-15T08:00:00.5Z") -> None:
        state: dict[str, Any] = {"last_seq": sequence, "last_ts": stored}
        self.watch.on_info({"state": state})


def test_two_infos_without_a_message_say_that_nothing_is_stored() -> None:
    trial = Trial()
    trial.hear()
    assert trial.wait(BOUND_S)
    trial.tell()
    assert trial.watch.cause is None
    assert not trial.wait(AGAIN_S / 2)
    assert trial.wait(AGAIN_S)
    trial.tell()
    assert trial.watch.cause is not None
    assert STREAM in trial.watch.cause
    assert trial.changes == [trial.watch.cause]


def test_a_stream_that_is_deleted_stores_nothing_until_it_is_made_anew() -> None:
    trial = Trial()
    trial.hear()
    trial.wait(BOUND_S)
    trial.watch.on_info(None)
    assert trial.watch.cause is None  # it may be made anew at this moment
    trial.wait(AGAIN_S)
    trial.watch.on_info(None)
    assert trial.watch.cause is not None
    trial.wait(AGAIN_S)
    trial.tell(0, "0001-01-01T00:00:00Z")
    assert trial.changes[-1] is None


def test_a_delivery_that_was_stored_since_says_that_all_is_well_without_asking() -> None:
    trial = Trial()
    trial.hear()
    trial.delivered_at = trial.now
    assert not trial.wait(BOUND_S)
    assert trial.changes == []


def test_another_instance_may_take_every_message() -> None:
    trial = Trial()
    trial.hear()
    assert trial.wait(BOUND_S)
    trial.tell(sequence=7)
    assert trial.wait(AGAIN_S)
    trial.tell(sequence=8)
    assert trial.watch.cause is None
    assert not trial.wait(AGAIN_S)


def test_what_may_be_a_copy_of_the_newest_stored_request_proves_nothing() -> None:
    trial = Trial(window_s=200.0)
    trial.hear()
    for _ in range(3):
        trial.wait(BOUND_S)
        trial.tell()
    assert trial.watch.cause is None
    trial.now = BEGIN + 202
    trial.hear()
    for _ in range(2):
        trial.wait(BOUND_S)
        trial.tell()
    assert trial.watch.cause is not None


def test_it_ends_with_a_stored_request_or_with_silence() -> None:
    for end in ("stored", "silence"):
        trial = Trial()
        trial.hear()
        for _ in range(2):
            trial.wait(BOUND_S)
            trial.tell()
        assert trial.watch.cause is not None
        if end == "stored":
            trial.delivered_at = trial.now
            trial.wait(0.0)
        else:
            trial.wait(FORGET_S + 1)
        assert trial.watch.cause is None, end
        assert trial.changes[-1] is None


def test_nothing_heard_asks_nothing() -> None:
    trial = Trial()
    assert not trial.wait(1000.0)
    assert trial.changes == []
