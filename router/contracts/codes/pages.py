"""Read the rule behind a code: its sentence on the page that states it, and the file of that page
on this machine.

    docs/reference/contracts.md#replies      a page of the project and an anchor of it, from the top
                                             of the repository
    router/docs/                   the same pages in an installed package; a checkout has them
                                   beside the package

The pages are the truth, so no sentence of theirs is repeated in the tables of codes.
"""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

PACKAGE = Path(__file__).parents[2]

_LINK = re.compile(r"\[([^\[\]]*)\]\([^()]*\)")
_ANCHOR = re.compile(r'<a id="[^"]*"></a>')
_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[(])|\n\s*\n|\n(?=[*|#<])")


def locate(page: str) -> Path | None:
    """Return the file of `docs/….md#…`; None if the pages are not installed."""
    name = page.partition("#")[0]
    places = (PACKAGE / name, PACKAGE.parent / name)
    return next((place for place in places if place.is_file()), None)


def read_rule(page: str) -> str | None:
    """Return the first sentence after the anchor; in a table's row, that of its last cell. None if
    there is no such page or anchor.
    """
    file = locate(page)
    if file is None:
        return None
    _, anchor, rest = _text_of(file).partition(f'<a id="{page.partition("#")[2]}"></a>')
    return _first_sentence(rest) if anchor else None


@cache
def _text_of(file: Path) -> str:
    return file.read_text("utf-8")


def _first_sentence(text: str) -> str:
    line = text.split("\n", 1)[0]
    if line.rstrip().endswith("|"):
        text = line.rstrip(" |").rpartition("|")[2]
    lines = (
        line for line in _ANCHOR.sub("", text).lstrip().split("\n") if not line.startswith("#")
    )
    sentence = _END.split("\n".join(lines).lstrip(), maxsplit=1)[0]
    return " ".join(_LINK.sub(r"\1", sentence).replace("`", "").replace("**", "").split())
