"""`python -m tests.contracts.agreement [--messages 100000] [--seed 1] [--only decide]`: schemas
against readers, and a table.
"""

import argparse
import random
from collections import Counter
from collections.abc import Sequence
from itertools import islice

import orjson

from router.operate.catalogue import MessageShape, build_shapes
from tests.contracts.agreement.compare import find_disagreements, validator_of
from tests.contracts.agreement.readers import READERS
from tests.contracts.agreement.written import WRITERS

SHOWN = 5  # disagreements of one message


def main(arguments: Sequence[str] | None = None) -> int:
    options = parse(arguments)
    shapes = [shape for shape in build_shapes().values() if options.only in shape.name]
    print(
        "| message | generated | taken | refused | disagreements |\n"
        "| --- | ---: | ---: | ---: | ---: |"
    )
    total = sum(
        compare_received(shape, options.messages, options.seed)
        for shape in shapes
        if shape.name in READERS
    )
    total += sum(
        check_written(shape, options.messages, options.seed)
        for shape in shapes
        if shape.name in WRITERS
    )
    print(f"\n{total} disagreements, seed {options.seed}")
    return 1 if total or not shapes else 0


def compare_received(shape: MessageShape, messages: int, seed: int) -> int:
    counts: Counter[bool] = Counter()
    found = list(find_disagreements(shape, messages, seed, counts))
    print(
        f"| {shape.name} | {messages} | {counts[True]} | {counts[False]} | {len(found)} |",
        flush=True,
    )
    for is_valid, message in islice(found, SHOWN):
        print(
            f"  {'schema' if is_valid else 'reader'} alone takes "
            f"{orjson.dumps(message).decode()[:400]}"
        )
    return len(found)


def check_written(shape: MessageShape, messages: int, seed: int) -> int:
    """What the router writes."""
    chance, validator = random.Random(seed), validator_of(shape)
    invalid = sum(
        not validator.is_valid(orjson.loads(WRITERS[shape.name](chance))) for _ in range(messages)
    )
    print(
        f"| {shape.name} (written) | {messages} | {messages - invalid} | {invalid} | {invalid} |",
        flush=True,
    )
    return invalid


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.contracts.agreement", description=__doc__
    )
    parser.add_argument("--messages", type=int, default=100_000, help="of each kind")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", default="", help="messages with this in their name")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
