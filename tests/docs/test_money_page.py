"""The worked examples of the page on money add up: each `a + b = c` of its blocks, and its table of
sums.
"""

import ast
import re
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "explanation" / "money.md").read_text()
BLOCKS = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)
EQUATIONS = [line for block in BLOCKS for line in block.splitlines() if "=" in line]
LABEL_END = 22  # columns: what an equation is about stands before it


def compute(text: str) -> Fraction:
    return _compute(ast.parse(text.strip(), mode="eval").body, text)


def _compute(node: ast.expr, text: str) -> Fraction:
    match node:
        case ast.Constant():
            return Fraction(ast.get_source_segment(text.strip(), node) or "")
        case ast.UnaryOp(ast.USub(), operand):
            return -_compute(operand, text)
        case ast.BinOp(left, ast.Add(), right):
            return _compute(left, text) + _compute(right, text)
        case ast.BinOp(left, ast.Sub(), right):
            return _compute(left, text) - _compute(right, text)
        case ast.BinOp(left, ast.Mult(), right):
            return _compute(left, text) * _compute(right, text)
        case ast.BinOp(left, ast.Div(), right):
            return _compute(left, text) / _compute(right, text)
        case ast.Call(ast.Name("max"), arguments):
            return max(_compute(one, text) for one in arguments)
        case _:
            raise ValueError(text)


@pytest.mark.parametrize("line", EQUATIONS)
def test_an_example_adds_up(line: str) -> None:
    told, result = line[LABEL_END:].split("=")
    assert compute(told) == compute(result), line


def test_every_case_has_an_example() -> None:
    assert len(EQUATIONS) > 25


def read_sums() -> Iterator[tuple[str, list[Fraction]]]:
    """The rows of the last table: its name, and its three numbers; an empty cell is 0."""
    table = PAGE.partition('<a id="sums"></a>')[2]
    for line in table.splitlines():
        if line.startswith("| ") and not line.startswith("| event"):
            name, *cells = (cell.strip() for cell in line.strip("|").split("|"))
            yield name, [Fraction(cell or "0") for cell in cells]


def test_the_table_of_sums_adds_up() -> None:
    *rows, (name, together) = read_sums()
    assert name == "together"
    assert [
        sum(column) for column in zip(*(numbers for _, numbers in rows), strict=True)
    ] == together
