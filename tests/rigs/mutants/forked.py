"""A process that has imported what the tests import, and forks a child for each mutant.

`python -m tests.rigs.mutants.forked [TEST FILE…]`, in a copy of the tree. It collects the test files once.
It says that it is ready; then it reads one order a line, and answers each in one line:

    order    {"tests": [...], "left_out": [...], "limit": seconds, "mutant": null or {...}}
    answer   {"status": ..., "test": the first that failed, "ran": how many tests}
    status   passed, failed, hangs, or cannot: the mutant takes an import, so another process must

A mutant is there already: its file in the tree has it, which programs that a test starts will read.
What is imported already gets it here: each function of that file receives its changed code.
"""

import gc
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from types import CodeType, FunctionType
from typing import Any, TextIO

import google.protobuf.message
import hypothesis
import nats
import orjson
import prometheus_client
import pydantic
import pytest
import starlette.applications
import structlog
import typer
import uvicorn

# Imported once for all children that import Router anew.
LIBRARIES = (
    google.protobuf.message, hypothesis, nats, orjson, prometheus_client, pydantic,
    starlette.applications, structlog, typer, uvicorn,
)  # fmt: skip
Answer = dict[str, object]
OPTIONS = (
    "-o", "addopts=--import-mode=importlib", "-p", "no:xdist", "-p", "no:cacheprovider",
    "-q", "-m", "not matrix and not slow", "-o", "timeout=0",
)  # fmt: skip


class FirstFailure:
    """What a run has seen, told through a pipe: how many tests ran, and which failed first."""

    def __init__(self, pipe: int) -> None:
        self.pipe = pipe
        self.ran = 0
        self.failed: str | None = None

    def pytest_collection_finish(self) -> None:
        # A test that is only slow has noticed nothing.
        sys.modules["tests.conftest"].__dict__["LONGEST_S"] = float("inf")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.ran += report.when == "call" and not report.skipped
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed and self.failed is None:
            self.failed = report.nodeid
            self.tell("failed")

    def tell(self, status: str) -> None:
        if self.pipe >= 0:
            answer = {"status": status, "test": self.failed, "ran": self.ran}
            os.write(self.pipe, json.dumps(answer).encode())
            os.close(self.pipe)
            self.pipe = -1


def main(files: list[str], orders: TextIO, answers: TextIO) -> None:
    # Told to end, it ends what it has begun.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if files:
        pytest.main([*OPTIONS, "--collect-only", *files])
    gc.collect()
    # Before this a mutant in the tree would be imported for good.
    tell(answers, {"status": "ready"})
    for line in orders:
        order = json.loads(line)
        tell(answers, run_in_child(order))


def tell(answers: TextIO, answer: Answer) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


def run_in_child(order: Mapping[str, Any]) -> Answer:
    reads, writes = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.close(reads)
        os.setpgid(0, 0)
        run_tests(order, FirstFailure(writes))
    os.close(writes)
    grace_s = 0.0
    try:
        answer = wait_for(reads, order["limit"])
        # What failed may take its time to clean up, but not for ever.
        grace_s = 0.0 if answer["status"] == "hangs" else 10.0
    finally:
        os.close(reads)
        end_group(child, grace_s)
    return answer


def run_tests(order: Mapping[str, Any], seen: FirstFailure) -> None:
    """The child: it never returns."""
    try:
        if order["mutant"] and not replace_code(**order["mutant"]):
            seen.tell("cannot")
        left_out = [word for test in order["left_out"] for word in ("--deselect", test)]
        status = pytest.main([*OPTIONS, "-x", *left_out, *order["tests"]], [seen])
        # 5: nothing was left to run
        seen.tell("passed" if status in {0, 5} else "failed")
    finally:
        sys.stdout.flush()
        os._exit(0)


def wait_for(pipe: int, limit: float) -> Answer:
    """The child's answer; beyond the limit it hangs."""
    ends = time.monotonic() + limit
    os.set_blocking(pipe, False)
    said = b""
    while time.monotonic() < ends:
        try:
            said += (chunk := os.read(pipe, 65536))
            if not chunk:
                return json.loads(said) if said else {"status": "failed", "test": None, "ran": 0}
        except BlockingIOError:
            time.sleep(0.02)
    return {"status": "hangs", "test": None, "ran": 0}


def end_group(child: int, grace_s: float) -> None:
    """The child ends, and all that it has started."""
    ends = time.monotonic() + grace_s
    while time.monotonic() < ends and not os.waitpid(child, os.WNOHANG)[0]:
        time.sleep(0.02)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)
    with suppress(ChildProcessError):
        os.waitpid(child, 0)


def replace_code(file: str, text: str, changed: str) -> bool:
    """Each function of the file gets the code that it has in the changed text; False: it cannot."""
    old = list(list_code(compile(text, file, "exec")))
    new = list(list_code(compile(changed, file, "exec")))
    names = [name_code(code) for code in old]
    if [name for name, _ in names] != [code.co_qualname for code in new]:
        return False
    codes = dict(zip(names, new, strict=True))
    functions = [one for one in gc.get_objects() if isinstance(one, FunctionType)]
    try:
        for function in functions:
            code = function.__code__
            if code.co_filename == file and name_code(code) in codes:
                function.__code__ = codes[name_code(code)]
    except ValueError:
        # it has other free variables than before
        return False
    return True


def name_code(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def list_code(code: CodeType) -> Iterator[CodeType]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield constant
            yield from list_code(constant)


if __name__ == "__main__":
    # The tests' output goes elsewhere: only answers go to the runner.
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    main(sys.argv[1:], sys.stdin, told)
