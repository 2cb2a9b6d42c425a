"""A stand-in for a model's tokenizer, and texts in five languages and code that are sent in pieces:
what an estimate is held to.

The tokenizer takes the longest entry of its vocabulary, which is made of frequent parts of words of
these texts. Router knows neither. Every second line of a language (every second block of the code)
is for learning, the others are for the measurement.
"""

import random
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

CORPORA = Path(__file__).parent / "corpora"
LANGUAGES = ("english", "german", "russian", "chinese", "arabic", "code")
TO_LEARN, TO_MEASURE = 0, 1
# a word with its space, a digit, spaces, signs
_PARTS = re.compile(r" ?[^\W\d_]+|\d|\s+| ?[^\w\s]+|_+")
_LONGEST = 12  # characters of a token
_FREQUENT = 12  # times a part comes, and its length: what makes it a token


class StandInTokenizer:
    """Its own count of any text."""

    def __init__(self, vocabulary: frozenset[str]) -> None:
        self._vocabulary = vocabulary

    def cut(self, text: str) -> list[str]:
        return [token for part in _PARTS.findall(text) for token in self._cut_part(part)]

    def _cut_part(self, part: str) -> Iterator[str]:
        begin = 0
        while begin < len(part):
            ends = range(min(len(part), begin + _LONGEST), begin, -1)
            end = next(
                end for end in ends if end == begin + 1 or part[begin:end] in self._vocabulary
            )
            yield part[begin:end]
            begin = end


@cache
def make_tokenizer() -> StandInTokenizer:
    counts: Counter[str] = Counter()
    for part in _PARTS.findall("\n".join(map(read_corpus, LANGUAGES))):
        for begin in range(len(part)):
            counts.update(
                part[begin:end] for end in range(begin + 2, min(len(part), begin + _LONGEST) + 1)
            )
    return StandInTokenizer(
        frozenset(part for part, count in counts.items() if count * (len(part) - 1) >= _FREQUENT)
    )


@cache
def read_corpus(language: str) -> str:
    return (CORPORA / f"{language}.txt").read_text(encoding="utf-8")


def make_text(rng: random.Random, language: str, half: int) -> str:
    """Several sentences, or blocks of code, of one half of the language's texts."""
    if language == "code":
        return "\n\n".join(
            rng.choices(read_corpus("code").split("\n\n")[half::2], k=rng.randint(1, 4))
        )
    lines = read_corpus(language).splitlines()[half::2]
    return rng.choice((" ", "\n")).join(rng.choices(lines, k=rng.randint(2, 12)))


def cut_by_tokens(rng: random.Random, tokens: Sequence[str], most: int) -> list[list[str]]:
    """The tokens in groups of 1 to `most`, each of which is one piece."""
    pieces, begin = [], 0
    while begin < len(tokens):
        size = rng.randint(1, most)
        pieces.append(list(tokens[begin : begin + size]))
        begin += size
    return pieces
