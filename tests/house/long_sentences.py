"""Sentences of README, docs/ and ARCHITECTURE above LONG words, which no page has, and above EASY
words, which fall.

A cell of a table, an item of a list and a heading end a sentence. Code in a line is one word;
blocks of code, comments and the addresses of links are none. The reference is left out: it is
looked up, not read.
"""

import re
from collections.abc import Iterator
from pathlib import Path

from tests.house.measure import REPOSITORY

LONG = 40
EASY = 25
BLOCK = re.compile(r"^ *(```|~~~).*?^ *\1[^\n]*$|<!--.*?-->", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`[^`]+`")
LINK = re.compile(r"!?\[([^\]]*)\]\([^)]*\)")
TAG = re.compile(r"<[^>]+>")
ITEM = re.compile(r"^(?:[-*+]|\d+\.) ")
SENTENCE_END = re.compile(r"(?<=[.!?])[\"')*]*\s+")
WORD = re.compile(r"\S*\w\S*")


def count_long_sentences(root: Path = REPOSITORY, limit: int = LONG) -> int:
    return sum(1 for page in list_pages(root) for _ in find_long_sentences(page.read_text(), limit))


def list_pages(root: Path = REPOSITORY) -> list[Path]:
    pages = (
        page
        for page in (root / "docs").rglob("*.md")
        if "reference" not in page.relative_to(root).parts
    )
    return [root / "README.md", root / "router" / "ARCHITECTURE.md", *sorted(pages)]


def find_long_sentences(text: str, limit: int = LONG) -> Iterator[str]:
    for passage in list_passages(BLOCK.sub("\n\n", text)):
        plain = TAG.sub("", LINK.sub(r"\1", INLINE_CODE.sub("code", passage)))
        yield from (
            sentence
            for sentence in SENTENCE_END.split(plain)
            if len(WORD.findall(sentence)) > limit
        )


def list_passages(text: str) -> Iterator[str]:
    """Paragraphs, items and cells, each in one line."""
    passage: list[str] = []
    for line in [*(line.strip() for line in text.splitlines()), ""]:
        begins_anew = not line or line.startswith(("|", "#")) or ITEM.match(line)
        if begins_anew and passage:
            yield " ".join(passage)
            passage = []
        if line.startswith("|"):
            yield from line.strip("|").split(" | ")
        elif line.startswith("#"):
            yield line
        elif line:
            passage.append(ITEM.sub("", line.removeprefix("> ")))
