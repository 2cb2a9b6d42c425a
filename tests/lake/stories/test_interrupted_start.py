"""Ctrl-C while Spark starts ends the command and the Java process under it."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.waiting import until

START = """
import threading
import typer
from router.shell import exit_codes
from router.lake.session import create_session
try:
    with exit_codes.report_errors():
        create_session("local[1]")
        threading.Event().wait()  # Spark may have started before the interrupt comes
except typer.Exit as told:
    raise SystemExit(told.exit_code)
"""


def starting() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-c", START], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )


def children_of(pid: int) -> list[int]:
    try:
        return [
            int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        ]
    except FileNotFoundError:
        return []


def is_java(pid: int) -> bool:
    """The one that stays: a shell, and a short Java that says how to start it, come before."""
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return words[0].endswith(b"java") and b"org.apache.spark.deploy.SparkSubmit" in words


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.timeout(900)
async def test_an_interrupt_while_spark_starts_leaves_no_java_behind() -> None:
    process = starting()
    java: list[int] = []

    def has_begun() -> bool:
        java[:] = [child for child in children_of(process.pid) if is_java(child)]
        return bool(java)

    try:
        await until(has_begun, within_s=60)
        process.send_signal(signal.SIGINT)
        # it returns when no process holds the pipe any more
        out, _ = await asyncio.to_thread(process.communicate, timeout=150)
        assert (process.returncode, out) == (130, b"")
        assert not is_there(java[0])
    finally:
        process.kill()
        for pid in filter(is_there, java):
            os.kill(pid, signal.SIGKILL)
