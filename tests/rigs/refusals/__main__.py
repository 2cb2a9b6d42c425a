"""`python -m tests.rigs.refusals`: each refusal of a publish, each store of effects, each kind of
process. `make refusals` runs it.

Exit status: 0 every cell holds, 1 not.
"""

import argparse
import asyncio
import contextlib
import os
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

from nats.aio.client import Client

from bench.machine import facts
from router.process.observability import configure
from tests.rigs.refusals.matrix import Cell, find_told, list_cells, play
from tests.rigs.refusals.page import render_page
from tests.rigs.refusals.router_stage import a_partition_stage, a_router_stage
from tests.rigs.refusals.stages import Stage, a_bus_stage, an_agent_stage, an_inbox_stage
from tests.rigs.refusals.work_stages import a_relay_stage, a_worker_stage
from tests.support.broker import Broker
from tests.support.patient_client import connect_patiently
from tests.support.postgres import HOMES, Postgres
from tests.support.refusals import Refusal

FACTS = ("date", "command", "CPU", "memory", "system", "Python", "nats-server")
UNKNOWN = "never ended"


async def play_all(only: str | None, postgres: Postgres) -> list[Cell]:
    cells = []
    for process, store, refusal in list_cells():
        if only is None or only in f"{process}/{store}/{refusal.name}":
            cells.append(cell := await _play_one(process, store, refusal, postgres))
            print(
                f"{process}/{store}/{refusal.name}: {'holds' if cell.holds else 'DOES NOT HOLD'}",
                file=sys.stderr,
                flush=True,
            )
    return cells


async def _play_one(process: str, store: str, refusal: Refusal, postgres: Postgres) -> Cell:
    """A cell that breaks is one that does not hold."""
    try:
        async with _a_stage(process, postgres) as (stage, url):
            return await play(process, stage, store, refusal, url)
    except Exception as exc:
        print(
            f"{process}/{store}/{refusal.name}: {type(exc).__name__} {exc}",
            file=sys.stderr,
            flush=True,
        )
        return Cell(
            process, store, refusal, 0, find_told(process, store, refusal), UNKNOWN, is_well=False
        )


@asynccontextmanager
async def _a_stage(process: str, postgres: Postgres) -> AsyncIterator[tuple[Stage, str]]:
    with _a_broker() as broker, tempfile.TemporaryDirectory() as home:
        async with (
            await connect_patiently(broker.url) as client,
            await _open_stage(process, client, broker.url, Path(home), postgres) as stage,
        ):
            yield stage, broker.url


async def _open_stage(
    process: str, client: Client, url: str, home: Path, postgres: Postgres
) -> contextlib.AbstractAsyncContextManager[Stage]:
    match process:
        case "router":
            return a_router_stage(client, url, "t")
        case "partition":
            return a_partition_stage(client, url)
        case "worker":
            return a_worker_stage(client, url)
        case "relay":
            return a_relay_stage(url, await postgres.database())
        case "bus":
            return a_bus_stage(client, url, "t")
        case "agent":
            return an_agent_stage(client, url, home)
        case _:
            return an_inbox_stage(client, url, await postgres.database())


@contextlib.contextmanager
def _a_broker() -> Iterator[Broker]:
    with Broker() as broker:
        yield broker


def main() -> int:
    arguments = _parse_arguments()
    configure("critical")  # what refuses is told to operators, in every cell
    machine = facts(" ".join(sys.argv[1:]))
    told = {
        **{name: machine[name] for name in FACTS},
        "load": f"{os.getloadavg()[0]:.1f} before the run",
    }
    with Postgres(max(HOMES)) as postgres:
        cells = asyncio.run(play_all(arguments.only, postgres))
    page = render_page(told, cells)
    if arguments.write is not None:
        arguments.write.write_text(page)
    print(page)
    return 0 if all(cell.holds for cell in cells) else 1


def _parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.rigs.refusals", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--only", help="cells whose process/store/refusal has this text")
    parser.add_argument("--write", type=Path, metavar="FILE", help="keep the page in this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
