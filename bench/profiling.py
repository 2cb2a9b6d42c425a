"""Where the time goes: cProfile in the processes of a question's first side. Off unless asked for:
it triples what a call costs.

The way into a child is its environment; who measures passes through here, from `--profile FILE` to
FILE.PROCESS.prof.
"""

from __future__ import annotations

import cProfile
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from bench.question import Question

VARIABLE = "BENCH_PROFILE"


@contextmanager
def profiling(file: Path) -> Iterator[None]:
    """Children that are started within write FILE.PROCESS.prof."""
    os.environ[VARIABLE] = str(file.resolve())
    try:
        yield
    finally:
        del os.environ[VARIABLE]


def profiled(question: Question) -> Question:
    """Our side alone, and no figures: a profiled rate is none."""
    return replace(question, sides=question.sides[:1], figures=())


@contextmanager
def written(process: str) -> Iterator[None]:
    """In a child: profile the block, if that was asked for."""
    if not (file := os.environ.get(VARIABLE)):
        yield
        return
    with cProfile.Profile() as profile:
        yield
    profile.dump_stats(f"{file}.{process}.prof")
