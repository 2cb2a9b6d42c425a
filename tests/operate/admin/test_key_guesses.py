"""Wrong keys are slowed down, and a proof is good for one question only."""

import pytest

from router.operate.admin.request_guard import VALID_MS, KeyGuesses, Proofs


class Still:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def looked_at(guesses: KeyGuesses, *inboxes: str) -> int:
    count = 0
    for inbox in inboxes:
        if guesses.may_try(inbox):
            guesses.record_wrong(inbox)
            count += 1
    return count


def test_one_client_has_twenty_guesses_and_then_one_a_second() -> None:
    clock = Still()
    guesses = KeyGuesses(clock)
    assert looked_at(guesses, *["_INBOX.a.1"] * 1000) == 20
    clock.now = 3
    assert looked_at(guesses, *["_INBOX.a.2"] * 1000) == 3


def test_all_together_have_a_hundred_and_then_ten_a_second() -> None:
    clock = Still()
    guesses = KeyGuesses(clock)
    assert looked_at(guesses, *[f"_INBOX.{n}.1" for n in range(5000)]) == 100
    clock.now = 2
    assert looked_at(guesses, *[f"_INBOX.{n}.1" for n in range(9000, 9999)]) == 20


def test_a_client_with_the_right_key_is_checked_until_it_sends_a_wrong_one() -> None:
    guesses = KeyGuesses(Still())
    guesses.record_right("_INBOX.known.1")
    looked_at(guesses, *[f"_INBOX.{n}.1" for n in range(5000)])
    assert guesses.may_try("_INBOX.known.2")
    guesses.record_wrong("_INBOX.known.2")
    assert not guesses.may_try("_INBOX.known.3")


ASKED = ("a.subject", "_INBOX.x", b"{}")


@pytest.mark.parametrize(
    "other", [("b.subject", *ASKED[1:]), (ASKED[0], "_INBOX.y", ASKED[2]), (*ASKED[:2], b"{ }")]
)
def test_a_proof_is_for_its_question_and_its_inbox(other: tuple[str, str, bytes]) -> None:
    proofs = Proofs(b"sesame", lambda: 1_000_000)
    proof = proofs.make(*ASKED)
    assert proofs.is_valid(proof, *ASKED)
    assert not proofs.is_valid(proof, *other)
    assert not Proofs(b"other", lambda: 1_000_000).is_valid(proof, *ASKED)


@pytest.mark.parametrize("late_ms", [VALID_MS + 1, -VALID_MS - 1])
def test_a_proof_is_for_a_minute(late_ms: int) -> None:
    proof = Proofs(b"sesame", lambda: 1_000_000).make(*ASKED)
    assert not Proofs(b"sesame", lambda: 1_000_000 + late_ms).is_valid(proof, *ASKED)


@pytest.mark.parametrize(
    "given", ["", ".", "x", "1", "1.", "é.é", "1" * 5000 + ".a", "-1.a", "1.\udc80"]
)
def test_what_is_no_proof_is_none(given: str) -> None:
    assert not Proofs(b"sesame").is_valid(given, *ASKED)
