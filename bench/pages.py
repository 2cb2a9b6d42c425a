"""The pages of results: each says when its figures were measured and of which code, in two lines.

    - date: 2026-11-29 17:01 UTC
    - commit: 21b77d36

`python -m bench.pages` (`make bench-pages`) writes the list of all of them, results/README.md, and
fills in the figures that texts quote (`quotes`). A page of other code than `bench.md` is listed as
old, or as newer.
"""

from __future__ import annotations

import re
from pathlib import Path

from msgspec import Struct

from bench import quotes
from bench.quotes import RESULTS

TOP = Path(__file__).parent.parent
# what quotes figures
QUOTING = ("README.md", "bench/README.md", "docs/explanation/sizing.md")
LIST = "README.md"
_DATE = re.compile(r"^- date: (\d{4}-\d\d-\d\d)\b.*$", re.MULTILINE)
_COMMIT = re.compile(r"^- commit: ([0-9a-f]{7,40})(, changed)?$", re.MULTILINE)
HEAD = """# The pages of results

Made by `make bench-pages`. Each page says in its lines `date` and `commit` when its figures were
measured, and of which code. *Old* is a page of earlier code than [bench.md](bench.md), the whole run
of the bench; *newer* is one of later code. A kill table, whose rows are kept one by one, says
what its oldest row is of. The commit of a page that was measured before 30 November 2026 is the one
that brought its figures.

"""


class Origin(Struct, frozen=True):
    """When the figures of a page were measured, and of which code."""

    date: str
    commit: str


class ResultPage(Struct, frozen=True):
    name: str
    title: str
    origin: Origin


def read_origin(text: str) -> Origin | None:
    """What a page says of itself; None where it does not."""
    date, commit = _DATE.search(text), _COMMIT.search(text)
    return Origin(date[1], commit[1]) if date and commit else None


def list_pages(results: Path = RESULTS) -> list[ResultPage]:
    """Every page, by its name. Raises ValueError for one that does not say what it is of."""
    return [_page(file) for file in sorted(results.glob("*.md")) if file.name != LIST]


def _page(file: Path) -> ResultPage:
    text = file.read_text()
    if (origin := read_origin(text)) is None:
        raise ValueError(f"{file.name}: no lines `- date: …` and `- commit: …`")
    return ResultPage(file.name, text.partition("\n")[0].removeprefix("# "), origin)


def make_list(results: Path = RESULTS) -> str:
    """The list of all pages as Markdown."""
    pages = list_pages(results)
    whole = next(page.origin for page in pages if page.name == "bench.md")
    rows = [
        f"| [{page.name}]({page.name}) | {page.title} | {page.origin.date} | {page.origin.commit} | "
        f"{compare(page.origin, whole)} |"
        for page in pages
    ]
    heads = ("| page | what it shows | date | commit | beside bench.md |", "| --- " * 5 + "|")
    return HEAD + "\n".join((*heads, *rows)) + "\n"


def compare(origin: Origin, whole: Origin) -> str:
    """Of one page: `old`, `newer`, or empty where the code is that of the whole run."""
    shorter, longer = sorted((origin.commit, whole.commit), key=len)
    if longer.startswith(shorter):
        return ""
    return "newer" if origin.date > whole.date else "old"


def main() -> None:
    (RESULTS / LIST).write_text(make_list())
    for name in QUOTING:
        page = TOP / name
        page.write_text(quotes.fill(page.read_text()))


if __name__ == "__main__":
    main()
