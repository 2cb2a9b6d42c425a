"""No figure of the house rises above its ceiling; and each is measured as its words say."""

import warnings
from pathlib import Path

import pytest

from tests.house import code_figures
from tests.house.figures import FIGURES, is_worth_lowering, read_ceilings, round_up
from tests.house.long_sentences import LONG, find_long_sentences

NARROW = "X = 1\n"
BESIDE = {"slip": 110, "shared": 1, "long": 111}
MIXED = '''"""Two
lines."""

import os
from pathlib import (
    Path,
)

# why
def look() -> Path:
    """Doc."""
    import sys
    return Path(sys.path[0], os.sep)
'''


@pytest.mark.parametrize("name", FIGURES)
def test_no_figure_is_above_its_ceiling(name: str) -> None:
    """`python -m tests.house.figures` shows them all; with --set today's become the ceilings."""
    value, ceiling = round_up(FIGURES[name].measure()), read_ceilings()[name]
    assert value <= ceiling, f"{FIGURES[name].title}: {value}, and at most {ceiling} is allowed"
    if is_worth_lowering(value, ceiling):
        warnings.warn(
            (
                f"{FIGURES[name].title}: {value} of {ceiling}; run `python -m "
                "tests.house.figures --set`"
            ),
            stacklevel=1,
        )


def test_every_figure_has_a_ceiling_and_every_ceiling_a_figure() -> None:
    assert list(read_ceilings()) == list(FIGURES)


def test_a_ceiling_is_worth_lowering_from_two_percent_on() -> None:
    assert [is_worth_lowering(value, 100) for value in (100, 99, 98.5, 98, 50)] == [
        False,
        False,
        False,
        True,
        True,
    ]
    assert not is_worth_lowering(0, 0)


def test_every_feature_has_files_and_no_pattern_is_in_vain() -> None:
    for name, patterns in code_figures.read_features().items():
        assert [
            pattern for pattern in patterns if not code_figures.list_files_of([pattern])
        ] == [], name


def test_a_constructor_that_may_be_wide_is_wide() -> None:
    """An exception that is no longer needed goes out of allowed_constructors.toml."""
    counts, most = code_figures.list_constructors(), read_ceilings()["constructor_arguments"]
    narrow = [name for name in code_figures.read_wide_classes() if counts.get(name, 0) <= most]
    assert narrow == []


def test_a_feature_in_two_rooms_stands_in_two(tmp_path: Path) -> None:
    for file in ("budgets/model.py", "budgets/store.py", "shell/budget_page.py", "work/worker.py"):
        write(tmp_path, file, NARROW)
    assert code_figures.list_rooms(code_figures.list_files_of(["budget"], tmp_path)) == [
        "budgets",
        "shell",
    ]


def test_code_lines_and_imports_are_counted_without_docstrings_blank_lines_and_comments(
    tmp_path: Path,
) -> None:
    facts = code_figures.read_facts(write(tmp_path, "core/look.py", MIXED))
    assert (sorted(facts.import_lines), sorted(facts.code_lines)) == (
        [4, 5, 6, 7, 12],
        [4, 5, 6, 7, 10, 12, 13],
    )
    assert round(code_figures.measure_imports(tmp_path)) == 71


def test_a_line_is_wide_above_a_hundred_columns(tmp_path: Path) -> None:
    write(tmp_path, "core/wide.py", f"A = '{'a' * 94}'\nB = '{'b' * 95}'\n")
    assert code_figures.measure_wide_lines(tmp_path) == 50


def test_a_slip_is_small_and_has_one_importer_beside_it(tmp_path: Path) -> None:
    for name, lines in BESIDE.items():
        write(tmp_path, f"core/{name}.py", NARROW * lines)
    write(
        tmp_path,
        "core/chapter.py",
        f"from router.core import {', '.join(BESIDE)}\nimport router.work.far\n",
    )
    write(tmp_path, "work/other.py", "def look():\n    import router.core.shared\n")
    write(tmp_path, "work/far.py", NARROW)
    assert [file.name for file in code_figures.find_slips(tmp_path)] == ["slip.py"]


def test_the_widest_constructor_is_counted_without_self(tmp_path: Path) -> None:
    write(
        tmp_path,
        "core/wide.py",
        (
            "class A:\n    def __init__(self, a, *b, c=1, **d): ...\n\nclass B:\n"
            "    def __init__(self): ...\n"
        ),
    )
    assert code_figures.list_constructors(tmp_path) == {"A": 4, "B": 0}


@pytest.mark.parametrize("before", ["", "Short. ", "- ", "| a | ", "> "])
def test_a_sentence_is_long_above_forty_words(before: str) -> None:
    words = "word " * (LONG - 2)
    assert list(find_long_sentences(f"{before}{words}`code of more words` end.\n")) == []
    assert (
        len(list(find_long_sentences(f"{before}{words}[two words](address of a link) end.\n"))) == 1
    )


@pytest.mark.parametrize(
    "text",
    [
        "```sh\n{}\n```\n",
        "<!-- {} -->\n",
        "| {} | {} |\n",
        "- {}\n- {}\n",
        "# {}\n{}\n",
        "{}\n\n{}\n",
    ],
)
def test_what_ends_a_sentence_and_what_is_none(text: str) -> None:
    half = "word " * (60 if text.count("{}") == 1 else 30)
    assert list(find_long_sentences(text.replace("{}", half.strip()))) == []


def write(root: Path, file: str, code: str) -> Path:
    path = root / "router" / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(code)
    return path
