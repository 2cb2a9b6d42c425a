"""`python -m bench`: every question, or one; the table; 0 when every target was met, 1 when one was missed.

python -m bench                                        all, 5 rounds; writes results/bench.{json,md}
python -m bench --only decide_backlog --rounds 1       one question, once
python -m bench --only decide_live --scale 0.1         … with a tenth of its messages
python -m bench --smoke                                one round at 3 %: fails only when something is broken
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import sys
from pathlib import Path

from rich.console import Console

from bench import report
from bench.machine import facts
from bench.question import Broken, Question
from bench.rounds import Answer, ask

QUESTIONS = (
    "decide_backlog",
    "decide_live",
    "decide_one_by_one",
    "decide_endurance",
    "extension_pipeline",
    "results_usage",
    "agents",
    "agents_large",
    "dlq_replay",
    "outbox_relay",
    "inbox",
    "inbox_http",
    "scrape_hold",
    "lake_source",
    "policy_engine",
    "read_request",
    "lake_report",
    "lake_ingest",
    "lake_scale",
)
RESULTS = Path(__file__).parent / "results" / "bench.json"
SMOKE_SCALE = 0.03


def main(arguments: list[str]) -> int:
    options = _options(arguments)
    console = Console(width=None if sys.stdout.isatty() else 200)
    try:
        answers = asyncio.run(_asked(options, console))
    except Broken as exc:
        print(f"broken: {exc}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    report.show(answers, console)
    if (file := _file(options)) is not None:
        report.write(answers, facts(_command(options)), file)
    return 1 if report.missed(answers) and not options.smoke else 0


async def _asked(options: argparse.Namespace, console: Console) -> list[Answer]:
    questions = [_question(name) for name in options.only or QUESTIONS]
    rounds, scale = (1, SMOKE_SCALE) if options.smoke else (options.rounds, options.scale)
    return [await ask(question, rounds, scale, lambda line: console.print(line, highlight=False)) for question in questions]


def _question(name: str) -> Question:
    question: Question = importlib.import_module(f"bench.{name}").QUESTION
    return question


def _file(options: argparse.Namespace) -> Path | None:
    """A partial run must not take the place of the whole one's results."""
    is_whole = not options.only and not options.smoke and options.scale == 1
    return options.json or (RESULTS if is_whole else None)


def _command(options: argparse.Namespace) -> str:
    """The command again, without the file that it writes: results are read on other machines."""
    only = [f"--only {name}" for name in options.only or ()]
    return " ".join(["python -m bench", f"--rounds {options.rounds}", *only, f"--scale {options.scale:g}"])


def _options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5, help="of each question; 5")
    parser.add_argument("--only", action="append", choices=QUESTIONS, metavar="QUESTION", help=f"may be repeated: {', '.join(QUESTIONS)}")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of messages; 1 = as published")
    parser.add_argument("--smoke", action="store_true", help=f"one round at scale {SMOKE_SCALE}; targets are not judged")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results here, and as Markdown beside it")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
