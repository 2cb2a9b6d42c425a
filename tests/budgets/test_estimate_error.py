"""How far an estimate is from a tokenizer that the router does not know, in five languages and code
of which none was learned.

A provider sends whole answers and tells their tokens; then streams of other texts are cut at a
random piece, and nothing is told of them. What the stand-in counted in the pieces that came is
compared with the bill. `python -m tests.budgets.test_estimate_error` prints it.
"""

import random
from collections.abc import Mapping

import pytest

from router.budgets.model.prices import PriceList, PriceTable, Pricing, parse_price
from router.contracts.provider_request import ProviderRequest
from tests.support.token_counts import (
    LANGUAGES,
    TO_LEARN,
    TO_MEASURE,
    cut_by_tokens,
    make_text,
    make_tokenizer,
)

LEARNED = 150  # whole answers
CUT = 60  # streams of each language
WAYS: Mapping[str, int] = {
    "one token a piece": 1,
    "one to eight tokens a piece": 8,
    "one to two hundred tokens a piece": 200,
}
PRICE = parse_price({"provider": "echo", "input": "1", "output": "1", "currency": "USD"})
Errors = dict[str, float]  # by language, and "sum"


class Provider:
    """Asks and answers with texts, and keeps its own count beside the bill."""

    def __init__(self, seed: int, most: int) -> None:
        self._rng, self._most, self._tokenizer = random.Random(seed), most, make_tokenizer()
        table = PriceTable()
        table.replace([PriceList((PRICE,))])
        self.pricing = Pricing(table, max_cost=1e9, unpriced=1.0, factor=100.0, floor=0.01)

    def answer_whole(self) -> None:
        prompt, pieces = self._invent(self._rng.choice(LANGUAGES), TO_LEARN)
        attempt = self.pricing.open(a_request(prompt), at=0.0)
        for piece in pieces:
            attempt.take("".join(piece), {})
        usage = {
            "prompt_tokens": str(self._count(prompt)),
            "completion_tokens": str(sum(map(len, pieces))),
        }
        attempt.take("", usage)
        assert not attempt.conclude(1.0, is_complete=True).estimated

    def answer_cut(self, language: str) -> tuple[int, int]:
        """The tokens that are billed, and those that there were."""
        prompt, pieces = self._invent(language, TO_MEASURE)
        pieces = pieces[: self._rng.randint(1, len(pieces))]
        attempt = self.pricing.open(a_request(prompt), at=0.0)
        for piece in pieces:
            attempt.take("".join(piece), {})
        usage = attempt.conclude(1.0, is_complete=False)
        assert usage.estimated
        assert usage.nanos == max(
            1, round(((usage.input_tokens or 0) + (usage.output_tokens or 0)) * 1000)
        )
        return (usage.input_tokens or 0) + (usage.output_tokens or 0), self._count(prompt) + sum(
            map(len, pieces)
        )

    def _invent(self, language: str, half: int) -> tuple[str, list[list[str]]]:
        prompt, answer = make_text(self._rng, language, half), make_text(self._rng, language, half)
        return prompt, cut_by_tokens(self._rng, self._tokenizer.cut(answer), self._most)

    def _count(self, text: str) -> int:
        return len(self._tokenizer.cut(text))


def a_request(prompt: str) -> ProviderRequest:
    return ProviderRequest(
        provider_id="echo", tenant_id="acme", request_id="r", trace_id="t", body=prompt
    )


def measure(seed: int, most: int, learned: int = LEARNED) -> Errors:
    """The error of the bill, by language and in sum."""
    provider = Provider(seed, most)
    for _ in range(learned):
        provider.answer_whole()
    pairs = {
        language: [provider.answer_cut(language) for _ in range(CUT)] for language in LANGUAGES
    }
    pairs["sum"] = [pair for found in pairs.values() for pair in found]
    return {
        name: sum(billed for billed, _ in found) / sum(true for _, true in found) - 1
        for name, found in pairs.items()
    }


@pytest.mark.parametrize("most", WAYS.values(), ids=list(WAYS))
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_in_sum_an_estimate_is_at_most_two_percent_off(seed: int, most: int) -> None:
    errors = measure(seed, most)
    assert abs(errors["sum"]) <= 0.02, errors
    assert max(map(abs, errors.values())) <= 0.08, errors


def test_one_token_a_piece_is_exact_for_the_answers() -> None:
    provider = Provider(1, 1)
    for _ in range(20):
        provider.answer_whole()
    attempt = provider.pricing.open(a_request("x"), at=0.0)
    tokens = make_tokenizer().cut(make_text(random.Random(5), "german", TO_MEASURE))
    for token in tokens:
        attempt.take(token, {})
    assert attempt.conclude(1.0, is_complete=False).output_tokens == len(tokens)


def main() -> None:
    print("| pieces | answers learned |", *(f" {name} |" for name in (*LANGUAGES, "sum")), sep="")
    print("|---" * (len(LANGUAGES) + 3), "|", sep="")
    for way, most in WAYS.items():
        for learned in (0, 8, 30, LEARNED, 1000):
            errors = measure(1, most, learned)
            print(
                f"| {way} | {learned} |",
                *(f" {100 * error:+.1f} % |" for error in errors.values()),
                sep="",
            )


if __name__ == "__main__":
    main()
