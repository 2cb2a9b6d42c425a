"""Hostile messages of every contract through its handler, usage events through the tables.

    python -m tests.rigs.fuzz.hostile_run --inputs 1000000 --write FILE

A contract fails when its handler raises what it does not declare, takes longer than `SLOWEST_S`
twice, or when the memory of its process grows by more than `GROWN_MIB` after a warm-up; the lake
fails when an ingest stops, or its tables do not add up.
"""

import argparse
import gc
import random
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from time import perf_counter, thread_time
from typing import NamedTuple

from google.protobuf.message import Message as Protobuf

from bench.machine import origin_lines
from router.process.memory import give_large_blocks_back
from router.process.observability import configure
from tests.rigs.fuzz.contracts import CONTRACTS, Contract, Sent
from tests.rigs.fuzz.feeding import Broken
from tests.rigs.fuzz.hostile import hostile_headers, hostile_json, hostile_protobuf
from tests.rigs.fuzz.lake import LAKE, take_hostile_events

SLOWEST_S = 0.25  # of the thread's own processor time
GROWN_MIB = 64.0
WARM = 0.25  # of the inputs: until then, memories fill
MEASURED = 200  # inputs: below, memory tells nothing, and to look at it costs more than they do
HEAD = (
    "| contract | inputs | refused | taken | slowest ms | grew by MiB | inputs/s |\n"
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: |"
)


class Row(NamedTuple):
    name: str
    inputs: int
    refused: int
    slowest_ms: float
    grown_mib: float
    seconds: float

    def __str__(self) -> str:
        taken, rate = self.inputs - self.refused, self.inputs / self.seconds
        return (
            f"| {self.name} | {self.inputs} | {self.refused} | {taken} | {self.slowest_ms:.1f} "
            f"| {self.grown_mib:.1f} | {rate:.0f} |"
        )


def feed_contract(name: str, inputs: int, seed: int) -> Row:
    """The same seed gives the same inputs. Raises Broken."""
    return feed(name, CONTRACTS[name], inputs, seed)


def feed(name: str, contract: Contract, inputs: int, seed: int) -> Row:
    rng, began = random.Random(f"{name}:{seed}"), perf_counter()
    serve, check = contract.make()
    refused, slowest, warm_mib = 0, 0.0, 0.0
    for number in range(inputs):
        if number == int(inputs * WARM) and inputs >= MEASURED:
            warm_mib = resident_mib()
        data, headers = _input(contract, rng)
        try:
            started = thread_time()
            refused += serve(data, headers)
            took = thread_time() - started
            if took > SLOWEST_S:  # once more: a machine that was busy elsewhere is no slow handler
                started = thread_time()
                serve(data, headers)
                took = min(took, thread_time() - started)
        except Exception as exc:
            raise Broken(
                (
                    f"{name}: {type(exc).__name__}: {str(exc)[:200]} for data={data[:2000]!r}, "
                    f"headers={headers!r}"
                )[:6000]
            ) from exc
        if took > SLOWEST_S:
            raise Broken(
                (
                    f"{name}: {took * 1000:.0f} ms for data={data[:300]!r}… ({len(data)} "
                    f"bytes), headers={headers!r}"
                )[:6000]
            )
        slowest = max(slowest, took)
    check()
    grown = resident_mib() - warm_mib if inputs >= MEASURED else 0.0
    if grown > GROWN_MIB:
        raise Broken(
            f"{name}: memory grew by {grown:.0f} MiB between input {int(inputs * WARM)} "
            f"and {inputs}"
        )
    return Row(name, inputs, refused, slowest * 1000, grown, perf_counter() - began)


def resident_mib() -> float:
    """The resident memory of this process, after unused memory is given back to the system."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def _input(contract: Contract, rng: random.Random) -> Sent:
    sent = rng.choice(contract.seeds)
    body = (
        hostile_protobuf(sent.body, rng)
        if isinstance(sent.body, Protobuf)
        else hostile_json(sent.body, rng)
    )
    return Sent(body, hostile_headers(sent.headers, rng))


def _fed(name: str, inputs: int, seed: int) -> Row | str:
    try:
        if name == LAKE:
            began = perf_counter()
            told = take_hostile_events(inputs, seed)
            if told.grown_mib > GROWN_MIB:
                return f"{name}: memory grew by {told.grown_mib:.0f} MiB"
            return Row(
                name,
                inputs,
                told.quarantined,
                told.slowest_ms,
                told.grown_mib,
                perf_counter() - began,
            )
        return feed_contract(name, inputs, seed)
    except Exception as exc:
        return f"{name}: {type(exc).__name__}: {exc}"[:6000]


def main(arguments: Sequence[str] | None = None) -> int:
    asked = _asked(arguments)
    names = [name for name in (*CONTRACTS, LAKE) if asked.only in name]
    # the lake is fed five shares: its batches are large
    share = -(-asked.inputs // max(1, len(names) + 4 * (LAKE in names)))
    inputs = {name: share * (5 if name == LAKE else 1) for name in names}
    lines, total, broken = [HEAD], 0, 0
    print(HEAD, flush=True)
    for row in _rows(inputs, asked.seed, asked.jobs):
        broken += isinstance(row, str)
        total += 0 if isinstance(row, str) else row.inputs
        lines.append(str(row))
        print(row, file=sys.stderr if isinstance(row, str) else sys.stdout, flush=True)
    end = f"\n{total} inputs, {broken} contracts broken, seed {asked.seed}"
    print(end)
    if asked.write is not None and not broken:
        asked.write.write_text(PAGE + "\n".join(lines) + end + "\n" + FOUND)
    return 1 if broken or not names else 0


def _rows(inputs: Mapping[str, int], seed: int, jobs: int) -> Iterator[Row | str]:
    """In a process each, so that memory is of one contract alone; without jobs, in this one."""
    if not jobs:
        yield from (_fed(name, count, seed) for name, count in inputs.items())
        return
    with ProcessPoolExecutor(jobs, max_tasks_per_child=1, initializer=_as_served) as pool:
        tasks = [pool.submit(_fed, name, count, seed) for name, count in inputs.items()]
        yield from (task.result() for task in tasks)


def _as_served() -> None:
    """The allocator as `router serve` has it; and what is warned of each input would be most of the
    work.
    """
    give_large_blocks_back()
    configure("error")


PAGE = f"""# Hostile messages, every contract

{origin_lines()}

`make fuzz`: messages that are legal, or nearly: every number at its extremes, every name about and beyond its limit, every list long,
JSON and protobuf, through the handlers as the app joins them (their memories small, so that growth is seen soon); usage events in
micro-batches through the tables: typed, quarantined, silver, gold, then the report, the reconciliation and a backfill's comparison.
A handler raises nothing but what it declares, within {SLOWEST_S * 1000:.0f} ms of processor time; what it answers, stores and leaves as
a dead letter can be read; a usage event that the router stores is one that the lake takes. Memory: of the process, from a quarter of
the inputs to the end, {GROWN_MIB:.0f} MiB at most.

"""
FOUND = """
What it found, and what shows it now:

| found | mended | shown in |
| --- | --- | --- |
| a follow-up of a decision with `attempts` of 5 000 digits raised ValueError | `decide.previous` | tests/decide/test_previous.py |
| a policy of 20 000 weights took 2.3 s of the loop | bounds of a policy | tests/policies/test_bounds.py |
| a provider of 1 000 characters became a usage event that the lake sets aside | `contracts.result` | tests/rigs/fuzz/test_hostile.py |
| a usage event whose cost has 41 decimals ended every reconciliation | `reconcile.amounts` | tests/lake/reconcile/test_tables.py |
"""


def _asked(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.fuzz.hostile_run", description=__doc__
    )
    parser.add_argument("--inputs", type=int, default=100_000, help="in all")
    parser.add_argument("--seed", type=int, default=1, help="the same seed gives the same inputs")
    parser.add_argument(
        "--jobs", type=int, default=2, help="contracts at once; 0 = none beside this process"
    )
    parser.add_argument("--only", default="", help="contracts with this in their name")
    parser.add_argument("--write", type=Path, help="the table's file, written when nothing broke")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    raise SystemExit(main())
