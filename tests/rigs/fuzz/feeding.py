"""One decoder and many inputs: each is accepted or refused in the decoder's own words, soon, or the
feeding stops and shows it.
"""

import json
import random
from collections.abc import Callable, Mapping
from time import perf_counter, thread_time
from typing import Any, NamedTuple

from tests.rigs.fuzz.mutants import mutant, odd_headers

SLOWEST_S = 0.05  # of the thread's own processor time


class Seed(NamedTuple):
    """A good message."""

    data: bytes
    headers: Mapping[str, str] = {}


class Decoder(NamedTuple):
    """`read` returns a value or raises one of `refuses`; `is_refusal`: which values are a refusal
    too.
    """

    seeds: tuple[Seed, ...]
    read: Callable[[bytes, Mapping[str, str]], Any]
    refuses: tuple[type[BaseException], ...] = ()
    is_refusal: Callable[[Any], bool] = lambda _: False


class Tally(NamedTuple):
    inputs: int
    refused: int
    accepted: int
    slowest_ms: float
    seconds: float


class Broken(AssertionError):
    """The input that a decoder could not bear; it can be read again from this text."""


def feed(
    name: str, decoder: Decoder, inputs: int, seed: int, slowest_s: float = SLOWEST_S
) -> Tally:
    """The same seed gives the same inputs. Raises Broken."""
    rng = random.Random(f"{name}:{seed}")
    refused, slowest, began = 0, 0.0, perf_counter()
    for _ in range(inputs):
        good = rng.choice(decoder.seeds)
        data, headers = mutant(good.data, rng), odd_headers(good.headers, rng)
        is_refused, took = one(name, decoder, data, headers)
        refused += is_refused
        if took > slowest_s:
            # a machine that was busy elsewhere is no slow decoder
            took = min(took, one(name, decoder, data, headers)[1])
        if took > slowest_s:
            raise Broken(
                f"{name}: {took * 1000:.0f} ms for data={data[:300]!r}… ({len(data)} "
                f"bytes), headers={headers!r}"
            )
        slowest = max(slowest, took)
    return Tally(inputs, refused, inputs - refused, slowest * 1000, perf_counter() - began)


def one(name: str, decoder: Decoder, data: bytes, headers: Mapping[str, str]) -> tuple[bool, float]:
    """Whether it was refused, and the seconds that took."""
    began = thread_time()
    try:
        is_refused = decoder.is_refusal(decoder.read(data, headers))
    except decoder.refuses:
        is_refused = True
    except BaseException as exc:
        raise Broken(
            f"{name}: {type(exc).__name__}: {str(exc)[:200]} for data={data[:2000]!r}, "
            f"headers={headers!r}"
        ) from exc
    return is_refused, thread_time() - began


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is no JSON")


_ANY_NUMBER = json.JSONDecoder(parse_float=str, parse_int=str, parse_constant=_refuse)


def read_any_json(data: bytes) -> Any:
    """JSON whose numbers no double holds, too: what a sender wrote travels on as it stands. ValueError
    for what is no JSON, NaN among it.
    """
    return _ANY_NUMBER.decode(data.decode())
