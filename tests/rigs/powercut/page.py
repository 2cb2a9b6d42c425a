"""The page: what each row came to, as Markdown. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tests.rigs.powercut.rows import MATTERS, Row
from tests.rigs.powercut.run import Outcome
from tests.rigs.powercut.writer import Written


def render_page(
    facts: Mapping[str, str], writers: Mapping[str, Written], outcomes: Sequence[Outcome]
) -> str:
    told = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    return f"""# A power cut

Made by `python -m tests.rigs.powercut` (`make powercut`); nothing here was written by hand.

{told}

{_table(outcomes)}
{HOW_TO_READ}
## The disk's own trial

{_writers(writers)}
{WHAT_A_CUT_IS}"""


HOW_TO_READ = """*Lost*: requests of which a stage lacks something, of those that were answered or asked; beside it each
stage, as *lost / double*, by the ledger of `make faults`. *Executed* may be double: a worker may die, or its server may forget its
ack. *Reach*: how long before its cut the oldest request was answered of which something is lost. *Settled*: whether all was answered,
done and acked within a minute after the load; if not, what is missing then counts as lost. *Expected*: whether the row is
what it must be: `always`, a kill and one of three lose 0 and double 0, and the default loses. A row *told* is only told.
"""

WHAT_A_CUT_IS = """## What a cut is here

Each server has an ext4 of its own (data=ordered, its defaults) on a loop device over a file in memory. Load runs; the server is killed,
and its file system is shut down at once without a flush of its journal (`FS_IOC_SHUTDOWN`, as xfstests does). So what is only in the
kernel's memory is gone: data, sizes and names, of whole files or from the middle of one on. What an fsync or the kernel itself had
written stays. Then it is mounted again, which replays the journal, and the server starts on what is left. No message is acknowledged after
the cut, because the server is dead before it.

strace holds each `fsync` and `fdatasync` up before it begins, for at least the time of the row: the server's message blocks are synced so.
Its small files of state are opened with `O_SYNC`, and take what the file system takes. The disk's own cache is not part of this: a disk
that acknowledges a flush and loses it loses whatever the setting is. The kernel writes what is older than 30 s by itself
(`vm.dirty_expire_centisecs`), when it gets to it, and the server syncs after its `sync_interval` of 2 minutes.
"""


def _table(outcomes: Sequence[Outcome]) -> str:
    head = (
        "| row | sync_interval | fsync + | servers | lose power | times | asked | lost | double | "
        f"{' | '.join(MATTERS)} | reach | settled | expected |\n"
        f"|---|---|---{'|---:' * (7 + len(MATTERS))}|---|---|"
    )
    return "\n".join([head, *map(_line, outcomes), ""])


def _line(outcome: Outcome) -> str:
    row = outcome.row
    stages = {stage.name: stage for stage in outcome.ledger.rows}
    cells = (
        row.name,
        row.sync_interval,
        f"{row.fsync_us / 1000:g} ms",
        row.servers,
        _felt(row),
        row.cuts,
        f"{outcome.asked:,}",
        outcome.lost,
        outcome.double,
        *(f"{len(stages[name].lost)} / {len(stages[name].double)}" for name in MATTERS),
        f"{outcome.reaches_s:.1f} s",
        "yes" if outcome.is_quiet else "no",
        _verdict(outcome),
    )
    return f"| {' | '.join(map(str, cells))} |"


def _felt(row: Row) -> str:
    return str(row.felt_by) if row.is_cut else "none: killed"


def _verdict(outcome: Outcome) -> str:
    if outcome.row.must_lose is None:
        return "told"
    return "yes" if outcome.is_as_expected else "no"


def _writers(writers: Mapping[str, Written]) -> str:
    head = "| a program that | lines told | lines kept | lost |\n|---|---:|---:|---:|"
    lines = [
        f"| {name} | {found.said:,} | {found.kept:,} | {found.lost:,} |"
        for name, found in writers.items()
    ]
    return "\n".join([head, *lines, ""])
