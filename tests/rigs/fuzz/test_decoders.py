"""Any bytes from any sender: every decoder returns a value or raises its own error, within its
time.
"""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rigs.fuzz.__main__ import main
from tests.rigs.fuzz.decoders import DECODERS
from tests.rigs.fuzz.feeding import Broken, Decoder, Seed, feed, one

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
HEADERS = st.dictionaries(
    st.sampled_from(["Nats-Msg-Id", "tenant_id", "version", "Event-Type"]),
    st.text(max_size=6),
    max_size=2,
)


@pytest.mark.parametrize("name", DECODERS)
def test_good_messages_are_accepted(name: str) -> None:
    """Else nothing would be tried but the first check."""
    decoder = DECODERS[name]
    accepted = [not one(name, decoder, seed.data, seed.headers)[0] for seed in decoder.seeds]
    assert any(accepted)


@pytest.mark.parametrize("name", DECODERS)
def test_damaged_messages_end_in_the_decoders_own_words(name: str) -> None:
    """`make fuzz` tries a million. Time is looked at there: a machine under test is busy with other
    things.
    """
    tally = feed(name, DECODERS[name], 40, seed=2, slowest_s=1.0)
    assert tally.inputs == 40


@settings(max_examples=25, deadline=None)
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()), HEADERS)
def test_anything_at_all_ends_in_every_decoders_own_words(
    data: bytes, headers: dict[str, str]
) -> None:
    for name, decoder in DECODERS.items():
        one(name, decoder, data, headers)


def _breaks_on_depth(data: bytes, _: object) -> object:
    if b"[[[" in data:
        raise RecursionError
    return data


def test_a_decoder_that_breaks_is_found_and_its_input_is_shown() -> None:
    with pytest.raises(Broken, match=r"weak: RecursionError: .* for data=b'.*\[\[\["):
        feed("weak", Decoder((Seed(b'{"a":1}'),), _breaks_on_depth), 1000, seed=1)


def test_a_decoder_that_is_slow_is_found() -> None:
    with pytest.raises(Broken, match="ms for data"):
        feed(
            "slow",
            Decoder((Seed(b"{}"),), lambda *_: sum(range(20_000))),
            5,
            seed=1,
            slowest_s=1e-6,
        )


def test_the_command_prints_a_row_for_each_decoder(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--inputs", "20", "--only", "advisory"]) == 0
    assert "| advisory | 20 |" in capsys.readouterr().out
    assert main(["--only", "nothing has this name"]) == 1
