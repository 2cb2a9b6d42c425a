"""`python -m bench`: every question, or one; the table; 0 when every target was met, 1 when one was
missed, 2 when something broke.

python -m bench                                        all, 5 rounds; writes results/bench.{json,md}
                                                       and the plots
python -m bench --long                                 … and the questions of ten million messages
python -m bench --only decide_backlog --rounds 1       one question, once
python -m bench --only decide_live --scale 0.1         … with a tenth of its messages
python -m bench --only decide_backlog --profile FILE   where its time goes: cProfile of each process
                                                       of the router's side
python -m bench --only decide_load --stalls FILE       which callbacks hold its loops
python -m bench --sync both                            … beside each other: on the disk before the
                                                       publish ack (`always`), or after it
python -m bench --smoke                                one round at 3 %: fails only when something
                                                       is broken
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import importlib
import sys
from functools import partial
from pathlib import Path

from rich.console import Console

from bench import report
from bench.document import Document, document, encoded, missed
from bench.extras import find_missing, say_left_out, say_missing
from bench.machine import facts
from bench.plan import Plan
from bench.profiling import profiled, profiling
from bench.question import Question
from bench.run import Run
from bench.stalls import tracing
from bench.ways import ALWAYS, BOTH, DEFAULT, Way, list_ways

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
    "gateway_overhead",
    "gateway_rate",
    "agents",
    "agents_large",
    "outbox_relay",
    "inbox",
    "inbox_http",
    "publish_ack",
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
    progress = Console(width=None if sys.stderr.isatty() else 200, stderr=True)

    def say(text: str) -> None:
        progress.print(text, highlight=False, markup=False)

    plan, left_out = _plan(options)
    told = partial(
        document,
        machine=facts(_command(options)),
        is_judged=not options.smoke,
        ways=plan.ways,
        left_out=left_out,
    )
    for why in left_out.values():
        say(why)
    run = Run(plan, say, partial(_keep, options, told))
    try:
        with contextlib.ExitStack() as stack:
            if options.profile:
                stack.enter_context(profiling(options.profile))
            if options.stalls:
                stack.enter_context(tracing(options.stalls))
            asyncio.run(run.go())
    except KeyboardInterrupt:
        say("interrupted: what was measured until now is shown")
        _show(told(run.answers, run.broken), options)
        return INTERRUPTED
    measured = told(run.answers, run.broken)
    _show(measured, options)
    if (file := _file(options)) is not None:
        report.write(measured, file)
    return _status(measured, options)


def _keep(options: argparse.Namespace, told: partial[Document], run: Run) -> None:
    """What is finished outlives a run that is not."""
    if (file := _file(options)) is not None:
        report.keep(told(run.answers, run.broken), file)


def _show(measured: Document, options: argparse.Namespace) -> None:
    if options.json:
        print(encoded(measured).decode(), end="", flush=True)
    else:
        report.show(measured, Console(width=None if sys.stdout.isatty() else 200))


def _status(measured: Document, options: argparse.Namespace) -> int:
    if measured.broken:
        return BROKEN
    return 1 if missed(measured) else 0


def _plan(options: argparse.Namespace) -> tuple[Plan, dict[str, str]]:
    """What is asked, and what is left out, with the reason."""
    asked, left_out = _questions(options)
    ways = list_ways(options.sync, options.replicas)
    if options.profile or options.stalls:
        return Plan(tuple(map(profiled, asked)), 1, options.scale, ways=ways[:1]), left_out
    if options.smoke:
        return Plan(tuple(asked), 1, SMOKE_SCALE, SMOKE_SCALE / 10, ways), left_out
    return Plan(tuple(asked), options.rounds, options.scale, ways=ways), left_out


def _questions(options: argparse.Namespace) -> tuple[list[Question], dict[str, str]]:
    """A question that was asked for by its name is asked, or the run ends."""
    asked, left_out = list[Question](), dict[str, str]()
    for name in options.only or QUESTIONS:
        question, missing = _question(name)
        is_wanted = options.only or options.long or options.smoke
        if question is not None and question.is_long and not is_wanted:
            continue
        if missing is not None and options.only:
            print(f"bench: {say_missing(name, missing)}", file=sys.stderr)
            sys.exit(BROKEN)
        if missing is not None:
            left_out[name] = say_left_out(name, missing)
        elif question is not None:
            asked.append(question)
    return asked, left_out


def _question(name: str) -> tuple[Question | None, str | None]:
    """The question, and what it needs and is not here."""
    try:
        question: Question = importlib.import_module(f"bench.{name}").QUESTION
    except ModuleNotFoundError as exc:
        return None, exc.name
    return question, find_missing(question)


def _file(options: argparse.Namespace) -> Path | None:
    """A partial run must not take the place of the whole one's results."""
    is_traced = options.profile or options.stalls
    is_whole = not (options.only or options.smoke or is_traced) and options.scale == 1
    is_whole = is_whole and list_ways(options.sync, options.replicas)[0] == Way()
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
            *([] if options.sync == DEFAULT else [f"--sync {options.sync}"]),
            *([] if options.replicas == "1" else [f"--replicas {options.replicas}"]),
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
        choices=(DEFAULT, ALWAYS, BOTH),
        default=DEFAULT,
        help="when a message is on the server's disk: some minutes after its publish ack (the "
        "server's default), or before it; both: columns beside each other",
    )
    parser.add_argument(
        "--replicas",
        choices=("1", "3", BOTH),
        default="1",
        help="copies of each stream: on one server, or on three on this machine and its one disk; "
        "both: columns beside each other",
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
        "--stalls",
        type=Path,
        metavar="FILE",
        help="name what holds the loop of each process of the first side: FILE.PROCESS.md",
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
