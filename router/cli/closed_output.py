"""The exit status if the reader of the output stops: `router dlq list | head -1`.

That is no answer of the router and must not look like one: click ends with 1, which here means "the answer is no". The status is
the one that a shell gives to a process that wrote to a closed pipe, 141.
"""

from __future__ import annotations

import os
import sys

from router.cli.exit_codes import OUTPUT_CLOSED


def choose_status(code: int | str | None) -> int | str | None:
    """Return the status to exit with, instead of `code`."""
    if type(sys.stdout).__name__ == "PacifyFlushWrapper":  # click, inside typer, found a closed pipe; this wrapper is the only sign
        return _discard_output()
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return _discard_output()
    return code


def _discard_output() -> int:
    """Drop what is still buffered: otherwise the interpreter would print an error at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    return OUTPUT_CLOSED
