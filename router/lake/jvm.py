"""Stop the Java process of a Spark session when the process that started it ends.

PySpark starts Java and keeps no reference to it until it answers. An interrupt in those seconds
deletes the file into which Java writes its port: Java fails, keeps its threads, and stays for ever
with our standard output open. So this module keeps the process from the moment it is created, kills
it at once if the start is interrupted, and waits for it when our process ends.

    with track_java():                   # replaces PySpark's Popen during the start
        spark = SparkSession.builder…    # interrupted: Java is killed here
    …                                    # later: our process closes Java's standard input at exit,
                                         and waits
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

END_S = 10.0  # that Java may take to end by itself


@contextlib.contextmanager
def track_java() -> Iterator[None]:
    """Stop what PySpark starts in this block: now if the block fails, else when this process ends."""
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class TrackedPopen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            # before the process exists: an interrupt may come as soon as it does
            started.append(self)
            super().__init__(*arguments, **options)

    launcher: Any = java_gateway  # it returns its process only if all went well
    theirs, launcher.Popen = launcher.Popen, TrackedPopen
    try:
        yield
    except BaseException:  # also Ctrl-C: no JVM may outlive the failed start
        for process in started:
            _kill(process)
        raise
    finally:
        launcher.Popen = theirs
    for process in started:
        atexit.register(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Java ends when its standard input closes; kill it if it does not."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_S)
    except BaseException:  # too slow, or another Ctrl-C
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    # an interrupt may have come before it was started
    if getattr(process, "pid", None) is not None:
        process.kill()
        process.wait()
