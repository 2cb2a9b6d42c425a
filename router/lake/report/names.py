"""Names that events brought, as a person may safely be shown them: on a page, and in a spreadsheet.

What is invisible steers: ESC a terminal, U+202E the direction of a line, a leading `=` a spreadsheet. JSON keeps names as they are.
"""

from __future__ import annotations

MOST = 64  # characters of a name on a page
_FORMULA = frozenset("=+-@＝＋－＠")  # their wide forms begin one, too


def legible(text: str) -> str:
    """One line: what cannot be seen is told by its escape."""
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape", "backslashreplace").decode() for one in text)


def cut(text: str, most: int = MOST) -> str:
    """The same, and no longer than that."""
    short = legible(text[: most + 1])
    return short if len(short) <= most else f"{short[: most - 1]}…"


def as_cell(text: str) -> str:
    """Text of a CSV that no spreadsheet takes for a formula: an apostrophe in front says that it is text."""
    shown = legible(text)
    return f"'{shown}" if shown.lstrip()[:1] in _FORMULA else shown
