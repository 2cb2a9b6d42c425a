"""Names and prose are held to the rules of docs/reference/glossary.md: what offends today is
listed, and the lists only shrink.
"""

from pathlib import Path

import pytest

from tests.house.listed import RULES, read_list, shrink_list
from tests.house.measure import (
    ALLOWED_FUNCTIONS,
    HERE,
    find_duplicate_classes,
    find_fragment_functions,
    find_old_words,
    find_vague_prose,
    is_fragment,
)


@pytest.mark.parametrize("rule", RULES)
def test_what_offends_is_listed_and_what_is_listed_offends(rule: str) -> None:
    """`python -m tests.house --list ROOM` shows the places; `--write` takes off the list what is
    gone.
    """
    offenders, listed = set(RULES[rule]()), read_list(rule)
    new, gone = sorted(offenders - listed), sorted(listed - offenders)
    assert not new, f"new: {', '.join(new)}"
    assert not gone, f"gone, and listed still: {', '.join(gone)}"


@pytest.mark.parametrize("rule", RULES)
def test_a_list_has_one_name_a_line_in_order(rule: str) -> None:
    lines = (HERE / f"{rule}.txt").read_text().splitlines()
    assert lines == sorted(set(lines))


def test_every_allowed_function_is_in_the_code_and_has_a_reason() -> None:
    source = "\n".join(file.read_text() for file in (HERE.parents[1] / "router").rglob("*.py"))
    assert [
        name
        for name, reason in ALLOWED_FUNCTIONS.items()
        if f"def {name}(" not in source or not reason.strip()
    ] == []


@pytest.mark.parametrize(
    "name",
    [
        "_told",
        "sifted",
        "begins",
        "_at_hand",
        "first_of",
        "letter_refused",
        "lasting",
        "when_ended",
    ],
)
def test_a_participle_or_a_fragment_is_no_name_of_a_function(name: str) -> None:
    assert is_fragment(name)


@pytest.mark.parametrize(
    "name",
    [
        "read",
        "_is_closed",
        "on_closed",
        "from_bytes",
        "mark_published",
        "newest_letter",
        "feed",
        "weighted_hash",
    ],
)
def test_verbs_predicates_callbacks_constructors_and_nouns_are_names(name: str) -> None:
    assert not is_fragment(name)


def test_each_rule_finds_its_offender(tmp_path: Path) -> None:
    (tmp_path / "router" / "pb").mkdir(parents=True)
    source = (
        '"""Whoever asks."""\n\n\nclass Case:\n    @property\n    def told(self): ...\n\n'
        "    def sifted(self): ...  # nobody\n"
    )
    for file in ("router/one.py", "router/two.py", "router/pb/three.py"):
        (tmp_path / file).write_text(source)
    (tmp_path / "README.md").write_text("It is said\nby somebody.\n")
    one, two = tmp_path / "router" / "one.py", tmp_path / "router" / "two.py"
    assert find_duplicate_classes(tmp_path) == {"Case": [one, two]}
    assert find_fragment_functions(tmp_path) == {"sifted": [one, two]}
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(
        "class SceneDesk: ...\ndef test_a_lane_is_delegated(): ...\ndef test_a_gateway(): ...\n"
    )
    assert set(find_old_words(tmp_path)) == {"SceneDesk", "test_a_lane_is_delegated"}
    assert {name: len(files) for name, files in find_vague_prose(tmp_path).items()} == {
        "README.md": 1,
        "router/one.py": 2,
        "router/two.py": 2,
    }


def test_a_list_never_grows(tmp_path: Path) -> None:
    (tmp_path / "rule.txt").write_text("kept\nsaid\n")
    shrink_list("rule", {"said", "told"}, tmp_path)
    assert (tmp_path / "rule.txt").read_text() == "said\n"
