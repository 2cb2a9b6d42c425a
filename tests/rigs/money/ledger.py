"""The file in which providers and workers write what they really did, before they tell it.

A line is written by one system call in append mode, so a process that is killed leaves whole lines.
No line is an answer of a router.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from msgspec import Struct


class Job(Struct, frozen=True):
    """An assignment that a worker did. `owed`: what is due for it, whatever the worker tells."""

    tenant: str
    assignment_id: str
    owed: Decimal


class Call(Struct, frozen=True):
    """One call that reached a provider. `name`: how the client calls its request."""

    number: str
    tenant: str
    provider: str
    name: str
    is_stream: bool


class End(Struct, frozen=True):
    """How far a call came. `told`: whether the provider told its usage; `output` counts what it
    sent, in its own tokens.
    """

    number: str
    input: int
    cached: int
    output: int
    last_piece: int  # tokens
    is_told: bool


class Ledger:
    """Written by one process; several may append to one file."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def write_job(self, tenant: str, assignment_id: str, owed: Decimal) -> None:
        self._write({"job": assignment_id, "tenant": tenant, "owed": str(owed)})

    def write_call(self, call: Call) -> None:
        self._write(
            {
                "call": call.number,
                "tenant": call.tenant,
                "provider": call.provider,
                "name": call.name,
                "stream": call.is_stream,
            }
        )

    def write_end(self, end: End) -> None:
        counts = {"in": end.input, "cached": end.cached, "out": end.output, "last": end.last_piece}
        self._write({"end": end.number, **counts, "told": end.is_told})

    def _write(self, facts: dict[str, object]) -> None:
        os.write(self._file, json.dumps(facts).encode() + b"\n")


class Work(Struct, frozen=True):
    """All that was done: each assignment once, and every call."""

    jobs: dict[str, Job]
    calls: list[Call]
    ends: dict[str, End]


def read_work(*paths: Path) -> Work:
    """A worker that was killed does its assignment again: it is one job all the same."""
    jobs: dict[str, Job] = {}
    calls: list[Call] = []
    ends: dict[str, End] = {}
    for line in _lines(*paths):
        if "job" in line:
            jobs.setdefault(line["job"], Job(line["tenant"], line["job"], Decimal(line["owed"])))
        elif "call" in line:
            calls.append(
                Call(line["call"], line["tenant"], line["provider"], line["name"], line["stream"])
            )
        else:
            ends[line["end"]] = End(
                line["end"], line["in"], line["cached"], line["out"], line["last"], line["told"]
            )
    return Work(jobs, calls, ends)


def _lines(*paths: Path) -> Iterator[dict[str, object]]:
    for path in paths:
        if path.exists():
            yield from (json.loads(line) for line in path.read_bytes().splitlines())
