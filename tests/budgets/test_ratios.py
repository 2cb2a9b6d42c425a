"""What is learned of a tokenizer, and what it can never do (docs/reference/prices.md#learned)."""

import random

import pytest
from msgspec.structs import asdict

from router.budgets.model.prices import LearnedRatios, TextCount, TokenRatio
from router.budgets.model.prices.ratio_sums import RatioSums, weigh

ENGLISH, CHINESE, CODE = (
    "The river rises in the hills above the village. " * 20,
    "这条河发源于村庄上方的山丘。" * 20,
    "x = [1, 2];\n" * 40,
)


def counts(text: str) -> list[int]:
    found = TextCount()
    found.add(text)
    return found.counts


def taught(*texts: tuple[str, float], pieces: int = 0, samples: int = 20) -> TokenRatio:
    """Told so many times what was documented of each text."""
    ratio = TokenRatio()
    for _ in range(samples):
        for text, times in texts:
            told = round(times * weigh(counts(text)))
            ratio.learn(counts(text), pieces, told)
            ratio.add_room(counts(text), told)
    return ratio


def times(ratio: TokenRatio, text: str, pieces: int = 0) -> float:
    return ratio.estimate(counts(text), pieces) / weigh(counts(text))


def test_before_there_are_samples_the_documented_ratio_holds() -> None:
    ratio = TokenRatio()
    for _ in range(7):
        ratio.learn(counts(ENGLISH), 0, 1000)
    assert times(ratio, ENGLISH) == pytest.approx(1, abs=0.01)
    ratio.learn(counts(ENGLISH), 0, 1000)
    assert ratio.estimate(counts(ENGLISH), 0) == pytest.approx(1000, rel=0.02)


def test_each_kind_of_character_has_a_ratio_of_its_own() -> None:
    ratio = taught((ENGLISH, 1.5), (CHINESE, 0.6), (CODE, 2.0))
    for text, expected in ((ENGLISH, 1.5), (CHINESE, 0.6), (CODE, 2.0)):
        assert times(ratio, text) == pytest.approx(expected, rel=0.03)


def test_what_is_estimated_below_the_documented_count_was_told_below_it_and_billed() -> None:
    ratio, text = taught((ENGLISH, 0.6)), counts(ENGLISH)
    low = ratio.estimate(text, 0)
    estimates = []
    for _ in range(20):
        estimates.append(ratio.estimate(text, 0))
        ratio.take_room(text, 0)
    documented = round(weigh(text))
    assert set(estimates) == {low, documented}
    assert estimates.count(low) * documented <= 20 * round(0.6 * documented)


def test_a_ratio_above_the_documented_one_takes_no_room() -> None:
    ratio = taught((ENGLISH, 1.5))
    ratio.take_room(counts(ENGLISH), 0)
    assert (ratio.known.room, times(ratio, ENGLISH)) == (0, pytest.approx(1.5, rel=0.03))


def test_pieces_of_about_a_token_are_taken_for_tokens() -> None:
    documented = round(weigh(counts(ENGLISH)))
    ratio = TokenRatio()
    assert ratio.estimate(counts(ENGLISH), round(documented * 1.2)) == round(documented * 1.2)
    for pieces in (documented * 2, documented // 2, 1, len(ENGLISH)):
        assert ratio.estimate(counts(ENGLISH), pieces) == documented


def test_tokens_of_a_piece_are_learned_where_they_are_steadier_than_characters() -> None:
    rng, ratio = random.Random(1), TokenRatio()
    for _ in range(100):
        pieces = rng.randint(20, 200)
        told = 3 * pieces + rng.choice((-1, 1))
        ratio.learn(counts(rng.choice((ENGLISH, CHINESE, CODE)) * rng.randint(1, 5)), pieces, told)
    text = counts(ENGLISH * 2)
    assert ratio.estimate(text, 150) == pytest.approx(450, abs=1)
    short = counts("ab cd ef gh ij k")
    assert ratio.estimate(short, 4) == 12
    assert ratio.estimate(short, 3) not in {9, 12}


def test_characters_are_used_where_they_are_steadier_than_pieces() -> None:
    rng, ratio = random.Random(1), TokenRatio()
    for _ in range(100):
        text = counts(ENGLISH * rng.randint(1, 5))
        ratio.learn(text, rng.randint(4, 500), round(1.5 * weigh(text)))
    for pieces in (4, 500):
        assert times(ratio, ENGLISH, pieces) == pytest.approx(1.5, rel=0.02)


@pytest.mark.parametrize("length", [1, 1000])
def test_one_telling_is_one_sample_however_large_it_is(length: int) -> None:
    """And however long its text is: else one long text would outweigh all others."""
    ratio = taught((ENGLISH, 1.0), samples=40)
    ratio.learn(counts(ENGLISH * length), 0, 10**9)
    for _ in range(5):
        ratio.learn(counts(ENGLISH), 0, round(weigh(counts(ENGLISH))))
    assert times(ratio, ENGLISH) < 1 + 8 / 40


@pytest.mark.parametrize(("told", "most"), [(10**9, 8.0), (1, 0.5)])
def test_no_telling_moves_an_estimate_beyond_its_bounds(told: int, most: float) -> None:
    ratio = TokenRatio()
    for _ in range(2000):
        for text in (ENGLISH, CHINESE, CODE):
            ratio.learn(counts(text), 50, told)
    for text in (ENGLISH, CHINESE, CODE, ENGLISH + CODE):
        for pieces in (0, 4, 10**6):
            assert min(0.5, most) * 0.99 <= times(ratio, text, pieces) <= max(8.0, most) * 1.01


def test_at_its_bounds_is_what_was_told_beyond_them() -> None:
    assert times(taught((ENGLISH, 0.1), samples=40), ENGLISH) == pytest.approx(0.5, rel=0.01)
    assert times(taught((ENGLISH, 20)), ENGLISH) == pytest.approx(8, rel=0.02)


def test_sums_of_two_instances_add_up_to_those_of_one_that_had_all_samples() -> None:
    rng, whole, first, later = random.Random(1), RatioSums(), RatioSums(), RatioSums()
    for number in range(30):
        share = rng.random()
        shares, told = [(0, share), (number % 11 + 1, 1 - share)], rng.random()
        tokens, pieces, *errors = (rng.random() for _ in range(4))
        for sums in (whole, first if number < 20 else later):
            sums.add_sample(shares, told)
            sums.add_pieces(round(100 * tokens), round(100 * pieces))
            sums.add_errors(*errors)
            sums.add_room(round(1000 * tokens))
    first.add(later)
    assert (first.samples, first.compared) == (30, 30)
    for name, value in asdict(whole).items():
        assert getattr(first, name) == pytest.approx(value)


def test_a_later_tokenizer_replaces_what_was_learned() -> None:
    ratio = taught((ENGLISH, 1.0), samples=300)
    for _ in range(600):
        ratio.learn(counts(ENGLISH), 0, round(2 * weigh(counts(ENGLISH))))
    assert times(ratio, ENGLISH) == pytest.approx(2.0, rel=0.06)


def test_any_text_has_a_token_and_no_text_has_none() -> None:
    assert TokenRatio().estimate(counts("a"), 0) == 1
    assert TokenRatio().estimate(counts(""), 0) == 0
    ratio = TokenRatio()
    ratio.learn(counts(""), 0, 5)
    ratio.learn(counts("a"), 0, 0)
    assert ratio.known.samples == 0


def test_a_tenant_that_floods_the_ratios_keeps_no_other_s_out() -> None:
    learned = LearnedRatios()
    mine = [learned.open("acme", "openai", f"m{number}") for number in range(8)]
    for number in range(4 * 1024):
        learned.open("evil", "openai", f"m{number}")
    assert [learned.find("acme", "openai", f"m{number}") for number in range(8)] == mine
    assert len(learned) <= 1024 * 9 // 8


def test_looking_for_a_ratio_keeps_none() -> None:
    learned = LearnedRatios()
    learned.find("acme", "openai", None)
    assert len(learned) == 0
