"""`python -m tests.rigs.fuzz --inputs 1000000 [--seed 1] [--jobs 2] [--only decide]`: every decoder
in turn, and a table.
"""

import argparse
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from bench.machine import origin_lines
from tests.rigs.fuzz.decoders import DECODERS
from tests.rigs.fuzz.feeding import Broken, Tally, feed

HEAD = (
    "| decoder | inputs | refused | accepted | slowest ms | inputs/s |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: |"
)


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    chosen = [name for name in DECODERS if asked.only in name]
    each, broken, total = -(-asked.inputs // max(1, len(chosen))), 0, 0
    print(HEAD, flush=True)
    with ProcessPoolExecutor(asked.jobs) as pool:
        for name, tally in zip(
            chosen, pool.map(partial(_fed, inputs=each, seed=asked.seed), chosen), strict=True
        ):
            if isinstance(tally, str):
                broken += 1
                print(tally, file=sys.stderr, flush=True)
            else:
                total += tally.inputs
                print(_row(name, tally), flush=True)
    print(f"\n{total} inputs, {broken} decoders broken, seed {asked.seed}")
    print(f"\n{origin_lines()}")
    return 1 if broken or not chosen else 0


def _fed(name: str, inputs: int, seed: int) -> Tally | str:
    try:
        return feed(name, DECODERS[name], inputs, seed)
    except Broken as exc:
        return str(exc)


def _row(name: str, tally: Tally) -> str:
    rate = tally.inputs / tally.seconds
    return (
        f"| {name} | {tally.inputs} | {tally.refused} | {tally.accepted} | "
        f"{tally.slowest_ms:.1f} | {rate:.0f} |"
    )


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.rigs.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=100_000, help="in all, shared evenly")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same inputs")
    parser.add_argument("--jobs", type=int, default=2, help="decoders at once")
    parser.add_argument("--only", default="", help="decoders with this in their name")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
