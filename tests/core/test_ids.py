"""Keys of buckets: made of parts, and taken apart again."""

import re
import uuid
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.core import ids
from router.core.ids import key, parts_of


@given(st.lists(st.text(), min_size=1).map(tuple))
def test_what_a_key_was_made_of_is_found_again(parts: tuple[str, ...]) -> None:
    assert parts_of(key(*parts)) == parts


@pytest.mark.parametrize("other", ["a=2", "a=2e", "=41", "a b", "a.*", "ä", "=FF"])
def test_a_key_of_another_form_has_no_parts(other: str) -> None:
    assert parts_of(other) is None


@given(
    st.text(max_size=140)
    | st.text(st.characters(min_codepoint=0x1F, max_codepoint=0x81), max_size=140)
)
def test_an_opaque_id_is_what_the_rule_says(text: str) -> None:
    assert ids.is_opaque(text) == (re.fullmatch(r"[\x21-\x7e]{1,128}", text) is not None)


@pytest.mark.parametrize(
    ("is_legal", "most"),
    [
        (ids.is_opaque, 128),
        (ids.is_scoped, 128),
        (ids.ScopedNames().__getitem__, 128),
        (ids.is_token, 64),
        (ids.is_literal_subject, 1024),
        (ids.subject_matcher(["*"]), 1024),
    ],
)
def test_a_name_has_at_most_so_many_characters(is_legal: Callable[[str], bool], most: int) -> None:
    assert [is_legal("x" * count) for count in (1, most, most + 1)] == [True, True, False]


@pytest.mark.parametrize(
    ("pattern", "taken", "others"),
    [
        ("a.*", ["a.b"], ["a", "a.b.c", "b.b"]),
        ("a.>", ["a.b", "a.b.c"], ["a", "b.a"]),
        ("a.b", ["a.b"], ["a", "a.b.c", "a.c"]),
        ("*.b", ["a.b"], ["b", "a.a"]),
    ],
)
def test_a_subject_matches_as_the_server_says(
    pattern: str, taken: list[str], others: list[str]
) -> None:
    matches = ids.subject_matcher(["x.y", pattern])
    assert [subject for subject in (*taken, *others) if matches(subject)] == taken


def test_tokens_of_subjects_are_eleven_letters_and_each_another() -> None:
    tokens = list(islice(ids.random_tokens(), 600))
    assert len(set(tokens)) == 600
    assert all(ids.is_token(token) and len(token) == 11 for token in tokens)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_a_derived_id_is_the_uuid_that_the_standard_says(parts: list[str]) -> None:
    assert ids.derived_uuid(*parts) == str(
        uuid.uuid5(uuid.UUID("6f0e1b0a-3d5c-5c8e-9a53-0d9a7a5b7c11"), "\x00".join(parts))
    )


def test_one_function_makes_the_subjects_of_every_bucket() -> None:
    """A subject made elsewhere would be published without the domain's prefix, and wait for ever
    behind a leaf node.
    """
    sources = Path(ids.__file__).parents[1].rglob("*.py")
    assert [file.name for file in sources if 'f"$KV' in file.read_text()] == ["ids.py"]
