"""What a provider tells of its use is input like any other (docs/reference/prices.md#told)."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.contracts.provider_call import read_answer, read_piece
from router.contracts.told_usage import MAX_TOKENS, NOTHING_TOLD, ToldUsage, read_told_usage


def test_metadata_tell_model_tokens_and_cost() -> None:
    metadata = {
        "model": "gpt-4o",
        "prompt_tokens": "30",
        "completion_tokens": "2",
        "cached_tokens": "10",
        "cost": "0.25",
    }
    told = ToldUsage(
        model="gpt-4o", input_tokens=30, cached_tokens=10, output_tokens=2, cost=250_000_000
    )
    assert read_told_usage({**metadata, "status": "success"}) == told


@pytest.mark.parametrize(
    "metadata",
    [
        {"input_tokens": "30", "output_tokens": "2"},
        {"usage": '{"prompt_tokens": 30, "completion_tokens": 2}'},
        {"usage": '{"input_tokens": 30, "output_tokens": 2}'},
        {"usage": '{"prompt_tokens": 1, "completion_tokens": 2}', "prompt_tokens": "30"},
    ],
)
def test_other_names_and_a_usage_object_are_the_same(metadata: dict[str, str]) -> None:
    assert read_told_usage(metadata) == ToldUsage(input_tokens=30, output_tokens=2)


def test_an_answer_and_the_last_chunk_of_a_stream_tell_the_same() -> None:
    usage = {
        "prompt_tokens": 30,
        "completion_tokens": 2,
        "prompt_tokens_details": {"cached_tokens": 10},
    }
    answer = json.dumps({"output": "hi", "usage": usage, "model": "gpt-4o", "cost": 0.25}).encode()
    chunk = {
        "data": "hi",
        "done": True,
        "metadata": {"usage": usage, "model": "gpt-4o", "cost": 0.25},
    }
    found = [read_answer(answer, "echo").metadata, read_piece(answer, "echo").metadata]
    found.append(read_piece(json.dumps(chunk).encode(), "echo").metadata)
    assert {read_told_usage(one) for one in found} == {read_told_usage(found[0])}
    assert read_told_usage(found[0]).cached_tokens == 10


@pytest.mark.parametrize(
    "text", ["-1", "1.5", "nan", "true", "", " 1", "1e3", "9" * 10, "1_000", "٣"]
)
@pytest.mark.parametrize("name", ["prompt_tokens", "completion_tokens"])
def test_tokens_that_are_no_count_are_absent(name: str, text: str) -> None:
    assert read_told_usage({name: text}) == NOTHING_TOLD
    assert read_told_usage({name: str(MAX_TOKENS)}) != NOTHING_TOLD


@pytest.mark.parametrize(
    "text",
    [
        "-0.1",
        "-1",
        "nan",
        "inf",
        "-inf",
        "1e16",
        "",
        "free",
        "9" * 70,
        "sNaN",
        "1e999999999999999999999",
    ],
)
def test_a_cost_that_is_none_is_absent(text: str) -> None:
    assert read_told_usage({"cost": text}) == NOTHING_TOLD


@pytest.mark.parametrize("model", ["", "two words", "m" * 129, "modèle", "line\n"])
def test_a_model_that_is_no_name_is_absent(model: str) -> None:
    assert read_told_usage({"model": model}) == NOTHING_TOLD


@pytest.mark.parametrize(
    ("cost", "is_told"),
    [
        ("1" + "0" * 15, True),
        ("1000000000000000.1", False),
        ("0." + "1" * 62, True),
        ("0." + "1" * 63, False),
    ],
)
def test_a_cost_is_told_up_to_the_most_that_one_may_be(cost: str, is_told: bool) -> None:
    assert (read_told_usage({"cost": cost}).cost is not None) == is_told


def test_cached_tokens_are_a_part_of_told_input() -> None:
    whole = {"prompt_tokens": "2", "cached_tokens": "2"}
    assert read_told_usage(whole).cached_tokens == 2
    for told in ({"cached_tokens": "1"}, {"prompt_tokens": "1", "cached_tokens": "2"}):
        assert read_told_usage(told).cached_tokens is None


@pytest.mark.parametrize(
    "usage", ["[]", "7", "{", '{"prompt_tokens": 30, "more": "' + "x" * 5000 + '"}', "[" * 4000]
)
def test_a_usage_that_is_no_small_object_is_absent(usage: str) -> None:
    assert read_told_usage({"usage": usage}) == NOTHING_TOLD


def test_a_usage_of_four_kilobytes_is_read() -> None:
    usage = '{"prompt_tokens": 30}'
    for length, told in ((4096, ToldUsage(input_tokens=30)), (4097, NOTHING_TOLD)):
        assert read_told_usage({"usage": usage.ljust(length)}) == told


VALUES = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.dictionaries(st.text(max_size=9), st.integers())
)
NAMES = (
    "prompt_tokens",
    "input_tokens",
    "completion_tokens",
    "cached_tokens",
    "prompt_tokens_details",
    "usage",
    "model",
    "cost",
)


@given(st.dictionaries(st.sampled_from(NAMES), VALUES))
def test_whatever_is_told_is_bounded(metadata: dict[str, object]) -> None:
    told = read_told_usage(metadata)
    assert all(
        count is None or 0 <= count <= MAX_TOKENS
        for count in (told.input_tokens, told.cached_tokens, told.output_tokens)
    )
    assert told.cost is None or 0 <= told.cost <= 10**24
    assert (told.cached_tokens or 0) <= (told.input_tokens or 0)
