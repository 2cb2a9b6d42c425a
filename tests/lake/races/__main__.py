"""Run races, print the table, and write it as a page. Figures of earlier runs in the page's JSON
are added up, unless --anew.
"""

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import msgspec

from bench.machine import origin_lines
from tests.lake.races.kinds import KINDS
from tests.lake.races.run import WITHOUT_LOOK, Locate, RaceTally, run_races
from tests.support.result_pages import format_table
from tests.support.s3 import Fault, an_s3_server

WITHOUT_CONDITION = "without the condition"
TITLE = "Writers of one warehouse against each other"
NOTE = """`lost` and `double` count events in bronze and silver, by sequence, and events in gold, as a reader of the newest cut sees
them after at most {many} races on a warehouse; `wrong` counts sums of a race (count and exact cost, by hour and by day) that are not its
events', and sealed days that do not read as they were sealed. A race is two processes that commit real batches by the lake's own code,
without Spark between its two steps; both are released at the same moment, and which of them is first is drawn. A writer that stood
still is stopped by SIGSTOP somewhere in its commits, and goes on by SIGCONT after the other one committed the same messages and more.
The bucket is moto's server, one request at a time, and not real S3. Controls: `without the look` commits a batch whatever the table's
last sequence is; `without the condition` is a bucket that ignores `If-None-Match`. `make races` writes this page.

How the races ended (one writer / the other one):

"""


def main() -> None:
    options = _read_options()
    if options.anew:
        Path(options.write).with_suffix(".json").unlink(missing_ok=True)
    kinds = [kind for kind in KINDS if any(part in kind for part in options.kinds)]
    is_exact = True
    with _open_places(options) as (locate, environment):
        place = "bucket" if options.s3 else "disk"
        for kind in kinds:
            share = options.races // len(kinds) + (kinds.index(kind) < options.races % len(kinds))
            for one in run_races(
                kind,
                share,
                locate,
                place,
                environment=environment,
                control=options.control,
                seed=options.seed,
            ):
                print(one, flush=True)
                is_exact = is_exact and one.is_exact
                if options.write is not None:
                    write_races(Path(options.write), [one])
    if not options.control and not is_exact:
        raise SystemExit(1)


def write_races(page: Path, found: list[RaceTally]) -> None:
    """Add the figures to the JSON beside the page, and write the page of all of them."""
    figures = page.with_suffix(".json")
    before = (
        msgspec.json.decode(figures.read_bytes(), type=list[RaceTally]) if figures.exists() else []
    )
    sums: dict[tuple[str, str, str], RaceTally] = {}
    for one in (*before, *found):
        if (one.place, one.control, one.kind) in sums:
            sums[one.place, one.control, one.kind].add(one)
        else:
            sums[one.place, one.control, one.kind] = one
    lines = sorted(
        sums.values(),
        key=lambda one: (bool(one.control), one.place != "disk", list(KINDS).index(one.kind)),
    )
    figures.write_bytes(msgspec.json.format(msgspec.json.encode(lines), indent=1) + b"\n")
    rows = [
        (
            f"{one.kind}{', control ' + one.control if one.control else ''}",
            one.place,
            one.races,
            one.lost,
            one.double,
            one.wrong,
        )
        for one in lines
    ]
    for place in ("disk", "bucket"):
        whole = [one for one in lines if one.place == place and not one.control]
        rows.append(
            (
                f"all, {place}",
                place,
                *(
                    sum(getattr(one, name) for one in whole)
                    for name in ("races", "lost", "double", "wrong")
                ),
            )
        )
    ends = "\n".join(
        f"* {one.kind}{' (control)' if one.control else ''}, {one.place}: {_tell_ends(one)}"
        for one in lines
    )
    table = format_table(("race", "on", "races", "lost", "double", "wrong"), rows, texts=2)
    page.write_text(f"# {TITLE}\n\n{origin_lines()}\n\n{table}\n{NOTE.format(many=25)}{ends}\n")


def _tell_ends(one: RaceTally) -> str:
    return ", ".join(
        f"{end} {count}" for end, count in sorted(one.ends.items(), key=lambda pair: -pair[1])
    )


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.lake.races", description=__doc__)
    parser.add_argument("--races", type=int, default=1000)
    parser.add_argument("--s3", action="store_true", help="in a bucket of moto's server")
    parser.add_argument("--kinds", nargs="+", default=[""], help="a part of their names")
    parser.add_argument("--control", choices=(WITHOUT_LOOK, WITHOUT_CONDITION), default="")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--write", metavar="PAGE")
    parser.add_argument("--anew", action="store_true", help="forget the page's earlier runs")
    options = parser.parse_args()
    options.s3 = options.s3 or options.control == WITHOUT_CONDITION
    return options


@contextmanager
def _open_places(options: argparse.Namespace) -> Iterator[tuple[Locate, dict[str, str]]]:
    """Yield what names a warehouse, a new one each time, and the variables that reach it."""
    if options.s3:
        with an_s3_server() as server:
            if options.control == WITHOUT_CONDITION:
                server.arm(Fault(part="/_delta_log/", what="no_condition", times=10**9))
            yield lambda: server.locate(uuid4().hex), dict(server.environment)
    else:
        with tempfile.TemporaryDirectory(prefix="router-test-") as home:
            yield lambda: f"{home}/{uuid4().hex}", {}


if __name__ == "__main__":
    main()
