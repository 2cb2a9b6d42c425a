"""Make names that events brought safe to show: on a page, and in a spreadsheet.

Invisible characters steer programs: ESC a terminal, U+202E the direction of a line, a leading `=` a
spreadsheet. JSON keeps names as they are.
"""

from __future__ import annotations

MAX_NAME_LENGTH = 64  # characters of a name on a page
_FORMULA = frozenset("=+-@＝＋－＠")  # the wide forms begin a formula, too


def make_legible(text: str) -> str:
    """Write the text on one line, with escapes for characters that cannot be seen."""
    if text.isprintable():
        return text
    return "".join(
        character
        if character.isprintable()
        else character.encode("unicode_escape", "backslashreplace").decode()
        for character in text
    )


def shorten(text: str, most: int = MAX_NAME_LENGTH) -> str:
    """Make the text legible and at most this long."""
    short = make_legible(text[: most + 1])
    return short if len(short) <= most else f"{short[: most - 1]}…"


def escape_cell(text: str) -> str:
    """Write text for a CSV that no spreadsheet takes for a formula: a leading apostrophe marks it
    as text.
    """
    shown = make_legible(text)
    return f"'{shown}" if shown.lstrip()[:1] in _FORMULA else shown
