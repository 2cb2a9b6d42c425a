"""Who reads what a command prints may stop: `router dlq list | head -1`.

That is no answer of the router's, and must not look like one: click ends with 1, which here says "the answer is no". The status is
the one that a shell gives to a process that wrote to a closed pipe, 141.
"""

from __future__ import annotations

import os
import sys

from router.cli.ends import READER_GONE


def status_of(code: int | str | None) -> int | str | None:
    """The status to end with, instead of `code`."""
    if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # click, within typer, met a closed pipe, and says so by this alone
        return _without_reader()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _without_reader()
    return code


def _without_reader() -> int:
    """What is still buffered goes nowhere: the interpreter would complain of it at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return READER_GONE
