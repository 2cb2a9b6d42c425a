"""The Java process under a Spark session: it never outlives the process that started it.

PySpark starts it and forgets it until it answers. An interrupt in these seconds removes the file in which Java was to tell its port:
Java fails to write it, keeps its threads, and stays for ever, with our standard output in its hands. So its process is remembered
from the moment it is made, ended at once where the start is interrupted, and waited for at the end of ours.

    with remembered() as started:        # PySpark's own Popen, for the time of the start
        spark = SparkSession.builder…    # interrupted: killed here
    …                                    # later: the end of our process closes its standard input, and waits
"""

from __future__ import annotations

import atexit
import contextlib
import subprocess
from collections.abc import Iterator
from typing import Any

END_S = 10.0  # that Java may take to end by itself, at the end


@contextlib.contextmanager
def remembered() -> Iterator[None]:
    """What PySpark starts in this block ends with it if it fails, else with this process."""
    from pyspark import java_gateway

    started: list[subprocess.Popen[bytes]] = []

    class Remembered(subprocess.Popen[bytes]):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            started.append(self)  # before it is there: an interrupt may come as soon as it is
            super().__init__(*arguments, **options)

    launcher: Any = java_gateway  # it hands its process to no caller before all went well
    theirs, launcher.Popen = launcher.Popen, Remembered
    try:
        yield
    except BaseException:
        for process in started:
            _kill(process)
        raise
    finally:
        launcher.Popen = theirs
    for process in started:
        atexit.register(_end, process)


def _end(process: subprocess.Popen[bytes]) -> None:
    """Java ends when its standard input does."""
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_S)
    except BaseException:  # too slow, or one more Ctrl-C
        _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> None:
    if getattr(process, "pid", None) is not None:  # it may have been interrupted before it was made
        process.kill()
        process.wait()
