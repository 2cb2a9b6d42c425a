"""`router bench`: the bench of a checkout, with its own options. An installed package has none: it
is beside the product, not in it. `router bench load` (`decide.commands.load`) is in both.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import typer

import router
from router.shell import exit_codes


def bench(context: typer.Context) -> None:
    """Measure Router itself beside its yardsticks: throughput, latency, memory. Needs a checkout;
    `--help` there lists its options.

    `router bench load` measures a router that runs, with requests of your own, and needs none.

    Exit status: 0 all targets met, 1 a target missed, 2 something is broken, 130 interrupted.

    Example:  router bench --only decide_backlog --rounds 1
    """
    if context.invoked_subcommand is not None:
        return
    root = Path(router.__file__).resolve().parent.parent
    if not (root / "bench" / "__main__.py").is_file():
        exit_codes.complain(
            "`router bench load` measures a running router with requests of your own; the rest of "
            "the bench is part of a checkout, not of the installed package: clone the repository, "
            "and run `make bench` there"
        )
        raise typer.Exit(exit_codes.USAGE)
    path = os.pathsep.join(filter(None, (str(root), os.environ.get("PYTHONPATH"))))
    # It replaces this process, so that Ctrl-C and the exit status are its own; -P: not a `bench` of
    # the working directory.
    os.execve(  # noqa: S606
        sys.executable,
        [sys.executable, "-P", "-m", "bench", *context.args],
        {**os.environ, "PYTHONPATH": path},
    )
