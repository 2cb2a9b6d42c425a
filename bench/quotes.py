"""Figures that a text quotes from a page of results, filled in by a script: `python -m bench.pages`.

    it decides <!--figure bench.md; decide_live; requests/s; router-->25,809<!--/--> requests/s

The page, cells that the row has (the first row that has them all), and the column. The figure is
the first number of the cell; `column [2]` takes the second one, as of "22.2 : 15.3", and `p99 #2`
the second column of that name. `page.md#Again` looks below headings that begin so, and a cell `@2`
takes the second row.

    <!--figure 1000 / [bench.md; decide_live; requests/s; CPU µs/msg]-->29.6<!--/-->    computed
    <!--figure? bench.md; …; always-->not measured yet<!--/-->                          once it is there
    <!--by hand: why-->…<!--/-->                                            figures that no page has
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from bench.figures import shown

RESULTS = Path(__file__).parent / "results"
ABSENT = "not measured yet"
_MARKED = re.compile(r"<!--figure(\??) (.*?)-->(.*?)<!--/-->", re.DOTALL)
_BY_HAND = re.compile(r"<!--by hand: [^>]+?-->.*?<!--/-->", re.DOTALL)
_INSIDE = re.compile(r"\[([^\[\]]+;[^\[\]]+)\]")
_NUMBER = re.compile(r"-?(?:\d{1,3}(?:,\d{3})+|\d+)(?:\.\d+)?")
_PLACE = re.compile(r"(?P<head>.*?)(?: #(?P<column>\d))?(?: \[(?P<number>\d)\])?")
_TURN = re.compile(r"@(\d+)")
_OPERATORS = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}


class NotThere(LookupError):
    """A text quotes what no page has."""


def fill(text: str, results: Path = RESULTS) -> str:
    """The text with the figures that the pages have now. Raises NotThere."""
    return _MARKED.sub(lambda found: _filled(found, results), text)


def list_quoted(text: str) -> list[str]:
    """What each marked figure quotes."""
    return [found[2] for found in _MARKED.finditer(text)]


def strip_marked(text: str) -> str:
    """The text without the figures that are filled in or said to be by hand."""
    return _BY_HAND.sub("", _MARKED.sub("", text))


def _filled(found: re.Match[str], results: Path) -> str:
    optional, source = found[1], found[2]
    try:
        figure = _evaluate(source, results)
    except NotThere:
        if not optional:
            raise
        figure = ABSENT
    return f"<!--figure{optional} {source}-->{figure}<!--/-->"


def _evaluate(source: str, results: Path) -> str:
    if not _INSIDE.search(source):
        return find(source, results)
    formula = _INSIDE.sub(lambda one: find(one[1], results).replace(",", ""), source)
    return shown(_compute(ast.parse(formula.strip(), mode="eval").body))


def _compute(node: ast.expr) -> float:
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return node.value
    if isinstance(node, ast.BinOp):
        done: float = _OPERATORS[type(node.op)](_compute(node.left), _compute(node.right))
        return done
    raise ValueError(f"not a formula: {ast.unparse(node)}")


def find(source: str, results: Path = RESULTS) -> str:
    """The figure that `page; cell; …; column` names, as the page shows it. Raises NotThere."""
    page, *cells, place = (part.strip() for part in source.split(";"))
    turns = [int(turn[1]) for cell in cells if (turn := _TURN.fullmatch(cell))]
    wanted = {cell for cell in cells if not _TURN.fullmatch(cell)}
    found = [number for number in _numbers(results, page, wanted, place) if number]
    if len(found) < (turn := max(turns, default=1)):
        raise NotThere(f"{source}: {page} has no such figure")
    return found[turn - 1]


def _numbers(results: Path, page: str, wanted: set[str], place: str) -> Iterator[str]:
    """Of each row that has the cells, the number at that place, or nothing."""
    name, _, section = page.partition("#")
    spot = _PLACE.fullmatch(place)
    assert spot is not None
    for heads, row in _rows(results / name, section):
        columns = [at for at, head in enumerate(heads) if head == spot["head"]]
        if wanted <= set(row) and len(columns) >= int(spot["column"] or 1):
            numbers = _NUMBER.findall(row[columns[int(spot["column"] or 1) - 1]])
            number = int(spot["number"] or 1)
            yield numbers[number - 1] if len(numbers) >= number else ""


def _rows(page: Path, section: str) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Each row of each table of a page, with the heads of its columns; below headings that begin
    with `section`.
    """
    if not page.is_file():
        raise NotThere(f"there is no page {page.name}")
    heads: Sequence[str] = ()
    below = ""
    for line in page.read_text().splitlines():
        if line.startswith("#"):
            below = line.lstrip("# ")
        cells = _cells(line) if below.startswith(section) else ()
        if not cells:
            heads = ()
        elif not heads:
            heads = cells
        elif set(line) - set("|-: "):
            yield heads, cells


def _cells(line: str) -> Sequence[str]:
    if not line.startswith("|"):
        return ()
    return [cell.strip() for cell in re.split(r"(?<!\\)\|", line.strip()[1:-1])]
