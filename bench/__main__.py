"""`python -m bench`: every question, or one; the table; 0 when every target was met, 1 when one was
missed, 2 when something broke.

python -m bench                                        all, 5 rounds; writes results/bench.{json,md}
                                                       and the plots
python -m bench --long                                 … and the questions of ten million messages
python -m bench --only decide_backlog --rounds 1       one question, once
python -m bench --only decide_live --scale 0.1         … with a tenth of its messages
python -m bench --only decide_backlog --profile FILE   where its time goes: cProfile of each process
                                                       of the router's side
python -m bench --smoke                                one round at 3 %: fails only when something
                                                       is broken
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib.util
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from bench import report
from bench.broker import sync_always
from bench.document import Document, document, encoded, missed
from bench.machine import facts
from bench.plan import Plan
from bench.profiling import profiled, profiling
from bench.question import Question
from bench.run import Run

QUESTIONS = (
    "decide_backlog",
    "decide_push",
    "circle",
    "worker",
    "decide_live",
    "decide_load",
    "decide_console",
    "workers",
    "decide_one_by_one",
    "decide_payload",
    "decide_volume",
    "decide_ten_million",
    "extension_pipeline",
    "results_usage",
    "acks",
    "dead_letters",
    "redelivery_cost",
    "dlq_replay",
    "agents",
    "agents_large",
    "outbox_relay",
    "inbox",
    "inbox_http",
    "scrape_hold",
    "violations",
    "policy_engine",
    "policy_states",
    "policy_strategies",
    "policy_budgets",
    "read_request",
    "lake_source",
    "lake_report",
    "lake_ingest",
    "lake_scale",
    "lake_driver",
    "lake_batches",
    "lake_start",
    "lake_workers",
)
RESULTS = Path(__file__).parent / "results" / "bench.json"
SMOKE_SCALE = 0.03
BROKEN = 2
INTERRUPTED = 130


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    if options.sync == "always":
        sync_always()
    progress = Console(width=None if sys.stderr.isatty() else 200, stderr=True)
    told = partial(document, machine=facts(_command(options)), is_judged=not options.smoke)
    run = Run(
        _plan(options),
        lambda text: progress.print(text, highlight=False, markup=False),
        partial(_keep, options, told),
    )
    try:
        with profiling(options.profile) if options.profile else contextlib.nullcontext():
            asyncio.run(run.go())
    except KeyboardInterrupt:
        progress.print(
            "interrupted: what was measured until now is shown", highlight=False, markup=False
        )
        _show(told(run.answers, run.broken), options)
        return INTERRUPTED
    found = told(run.answers, run.broken)
    _show(found, options)
    if (file := _file(options)) is not None:
        report.write(found, file)
    return _status(found, options)


def _keep(options: argparse.Namespace, told: partial[Document], run: Run) -> None:
    """What is finished outlives a run that is not."""
    if (file := _file(options)) is not None:
        report.keep(told(run.answers, run.broken), file)


def _show(found: Document, options: argparse.Namespace) -> None:
    if options.json:
        print(encoded(found).decode(), end="", flush=True)
    else:
        report.show(found, Console(width=None if sys.stdout.isatty() else 200))


def _status(found: Document, options: argparse.Namespace) -> int:
    if found.broken:
        return BROKEN
    return 1 if missed(found) else 0


def _plan(options: argparse.Namespace) -> Plan:
    asked = [_question(name) for name in options.only or QUESTIONS]
    if not options.only:
        asked = [
            question for question in asked if options.long or options.smoke or not question.is_long
        ]
    if options.profile:
        return Plan(tuple(map(profiled, asked)), 1, options.scale)
    if options.smoke:
        return Plan(tuple(asked), 1, SMOKE_SCALE, SMOKE_SCALE / 10)
    return Plan(tuple(asked), options.rounds, options.scale)


def _question(name: str) -> Question:
    try:
        question: Question = importlib.import_module(f"bench.{name}").QUESTION
        missing = next(
            (module for module in question.needs if importlib.util.find_spec(module) is None), None
        )
    except ModuleNotFoundError as exc:
        missing = exc.name
    if missing is not None:
        print(
            (
                f"bench: {name} needs {missing}: `make bench` installs it, or pip install -c "
                "constraints.txt -e '.[bench]'"
            ),
            file=sys.stderr,
        )
        sys.exit(BROKEN)
    return question


def _file(options: argparse.Namespace) -> Path | None:
    """A partial run must not take the place of the whole one's results."""
    is_whole = not (options.only or options.smoke or options.profile) and options.scale == 1
    return options.output or (RESULTS if is_whole else None)


def _command(options: argparse.Namespace) -> str:
    """The command again, without the file that it writes: results are read on other machines."""
    flags = [f"--{name}" for name in ("smoke", "long") if getattr(options, name)]
    only = [f"--only {name}" for name in options.only or ()]
    return " ".join(
        [
            "python -m bench",
            f"--rounds {options.rounds}",
            *only,
            f"--scale {options.scale:g}",
            *([] if options.sync == "default" else [f"--sync {options.sync}"]),
            *flags,
        ]
    )


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=_positive, default=5, help="of each question; 5")
    parser.add_argument(
        "--only",
        action="append",
        choices=QUESTIONS,
        metavar="QUESTION",
        help=f"may be repeated: {', '.join(QUESTIONS)}",
    )
    parser.add_argument(
        "--scale", type=float, default=1.0, help="of the number of messages; 1 = as published"
    )
    parser.add_argument(
        "--sync",
        choices=("default", "always"),
        default="default",
        help="when a message is on the server's disk: some minutes after its publish ack (the "
        "server's default), or before it",
    )
    parser.add_argument(
        "--smoke",
        action="store_true",
        help=f"one round at scale {SMOKE_SCALE}; targets are not judged",
    )
    parser.add_argument(
        "--long", action="store_true", help="the questions of ten million messages, too"
    )
    parser.add_argument(
        "--profile",
        type=Path,
        metavar="FILE",
        help="cProfile each process of the first side: FILE.PROCESS.prof",
    )
    parser.add_argument(
        "--output",
        type=Path,
        metavar="FILE.json",
        help="write the results here, Markdown and plots beside it",
    )
    parser.add_argument(
        "--json",
        action="store_true",
        help="JSON for programs on standard output, instead of the table",
    )
    return parser.parse_args(arguments)


def _positive(text: str) -> int:
    if (number := int(text)) < 1:
        raise argparse.ArgumentTypeError(f"{number}: must be 1 or more")
    return number


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
