"""What strategies cost a decision: by weight beside the code before there were any, the others
beside a choice by weight.

    python -m tests.rigs.strategies.costs --control COMMIT --write FILE

Each round runs `bench.sides.alone` of both trees, each as a process of its own and first by turns,
so that whatever disturbs the machine disturbs them alike. Times are processor time. Exit status: 0
all is as promised, 1 it is not.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.machine import facts
from tests.rigs.neighbours.tree import Tree, check_out, find_own_tree

CONTROL = "80546220"  # the last commit without strategies
CHOICES = 200_000
# of a choice by weight: less than either is what two runs of the same code differ by
RATIO, LEAST_US = 1.05, 0.05
MORE_US = 2.0  # of the other strategies, at most
FACTS = ("date", "commit", "CPU", "system", "Python", "load")
Figures = Mapping[str, float]  # µs a choice, by what is chosen


@dataclass(frozen=True)
class Part:
    """A function of `bench.sides.alone`, its arguments, and what its figures are called on the
    page.
    """

    function: str
    names: Mapping[str, str]
    arguments: Mapping[str, object]


BOTH = (
    Part(
        "engine",
        {
            "sticky_us": "the engine, a remembered session",
            "draw_us": "the engine, a draw by weight",
        },
        {},
    ),
    Part("choose", {"choose_us": "the handler's choice, nothing learned"}, {"states": "none"}),
    Part("choose", {"choose_us": "the handler's choice, with averages"}, {"states": "averages"}),
)
OWN = Part(
    "strategies", {"least_latency_more_us": "least_latency", "cheapest_more_us": "cheapest"}, {}
)


@dataclass(frozen=True)
class Costs:
    """Of each round: both trees' figures, and what each strategy costs more."""

    control: str
    own_rounds: Sequence[Figures]
    control_rounds: Sequence[Figures]
    more_rounds: Sequence[Figures]

    def find_ratio(self, name: str) -> float:
        return median(
            own[name] / other[name]
            for own, other in zip(self.own_rounds, self.control_rounds, strict=True)
        )

    def is_unchanged(self, name: str) -> bool:
        more_us = median(
            own[name] - other[name]
            for own, other in zip(self.own_rounds, self.control_rounds, strict=True)
        )
        return self.find_ratio(name) <= RATIO or more_us <= LEAST_US

    @property
    def is_kept(self) -> bool:
        names, strategies = self.own_rounds[0], self.more_rounds[0]
        return all(map(self.is_unchanged, names)) and all(
            find_middle(self.more_rounds, name) <= MORE_US for name in strategies
        )


def find_middle(rounds: Sequence[Figures], name: str) -> float:
    return median(one[name] for one in rounds)


def measure(part: Part, tree: Tree, count: int) -> Figures:
    asked = [
        sys.executable,
        "-m",
        "bench.child",
        "bench.sides.alone",
        part.function,
        json.dumps({**part.arguments, "count": count}),
    ]
    with subprocess.Popen(
        asked,
        cwd=tree.path,
        env=tree.environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        # it ends when it has said them; its input stays open until then
        said = json.loads(child.stdout.read())["figures"]
    return {name: said[key] for key, name in part.names.items()}


def measure_all(tree: Tree, count: int) -> Figures:
    return {name: value for part in BOTH for name, value in measure(part, tree, count).items()}


def run(control: str, rounds: int, count: int) -> Costs:
    own = find_own_tree()
    with check_out(control) as other:
        sides = [(own, list[Figures]()), (other, list[Figures]())]
        more = []
        for number in range(rounds):
            for tree, found in sides if number % 2 else reversed(sides):
                found.append(measure_all(tree, count))
            more.append(measure(OWN, own, count))
            print(f"round {number + 1} of {rounds}: {more[-1]}", file=sys.stderr, flush=True)
        return Costs(other.commit, sides[0][1], sides[1][1], more)


def write_page(machine: Mapping[str, str], costs: Costs) -> str:
    known = "".join(f"- {name}: {machine[name]}\n" for name in FACTS if name in machine)
    both = "".join(
        f"| {name} | {find_middle(costs.own_rounds, name):.2f} | "
        f"{find_middle(costs.control_rounds, name):.2f} "
        f"| {_mark(costs.find_ratio(name), is_kept=costs.is_unchanged(name))} |\n"
        for name in costs.own_rounds[0]
    )
    middles = {name: find_middle(costs.more_rounds, name) for name in costs.more_rounds[0]}
    more = "".join(
        f"| {name} | {_mark(value, is_kept=value <= MORE_US)} |\n"
        for name, value in middles.items()
    )
    return f"""# What strategies cost

`make strategy-costs` wrote this: µs of processor time a decision, medians of {len(costs.own_rounds)} rounds.
**Bold** is what is not as promised.

{known}
## By weight, beside {costs.control}, the last commit without strategies

Promised is a ratio of at most {RATIO:g}, or at most {LEAST_US:g} µs more: medians of the rounds'.

| a choice | µs | µs, {costs.control} | ratio |
|---|---:|---:|---:|
{both}
## The others, beside a choice by weight

Promised are at most {MORE_US:g} µs more.

| strategy | µs more |
|---|---:|
{more}"""


def _mark(value: float, *, is_kept: bool) -> str:
    return f"{value:.2f}" if is_kept else f"**{value:.2f}**"


def main() -> int:
    options = argparse.ArgumentParser(
        prog="python -m tests.rigs.strategies.costs", description=__doc__
    )
    options.add_argument(
        "--control", default=CONTROL, help=f"the commit beside (default {CONTROL})"
    )
    options.add_argument("--rounds", type=int, default=15)
    options.add_argument(
        "--count", type=int, default=CHOICES, help="choices of each figure in a round"
    )
    options.add_argument("--write", type=Path, help="the page; else it is printed")
    chosen = options.parse_args()
    load = f"{os.getloadavg()[0]:.1f} before the first round"
    costs = run(chosen.control, chosen.rounds, chosen.count)
    page = write_page({**facts("python -m tests.rigs.strategies.costs"), "load": load}, costs)
    if chosen.write is None:
        print(page, end="")
    else:
        chosen.write.write_text(page)
    return 0 if costs.is_kept else 1


if __name__ == "__main__":
    sys.exit(main())
