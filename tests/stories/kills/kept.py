"""The rows of a story's long table that were counted so far. A row may take ten minutes, so each is
kept as it ends.

a case is run ──> its rows replace those that were kept of it ──> bench/results/kill_{story}.json ──> kill_{story}.md, anew
"""

import fcntl
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.machine import commit
from tests.stories.kills.table import KillStory
from tests.support.kills import KillCount
from tests.support.result_pages import RESULTS, format_table, write_page

NOT_RUN = "Not run yet: {}."


class Kept(Struct, frozen=True):
    """What one case counted. `day`: when; `commit`: of which code."""

    day: str
    commit: str
    rows: list[KillCount]


def keep(story: KillStory, label: str, rows: Sequence[KillCount], results: Path = RESULTS) -> None:
    """Keep a case's rows in place of older ones, and write the page."""
    path = results / f"kill_{story.name}.json"
    path.touch()
    with path.open("r+b") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # another test may keep a row of the same story
        kept = {
            **_read(file.read()),
            label: Kept(f"{datetime.now(UTC):%Y-%m-%d}", commit(), [_copy(row) for row in rows]),
        }
        file.seek(0)
        file.truncate()
        file.write(msgspec.json.format(msgspec.json.encode(kept), indent=1) + b"\n")
        write_page(
            f"kill_{story.name}",
            story.title,
            _table(story, kept),
            _note(story, kept),
            results,
            measured=_oldest(kept),
        )


def _oldest(kept: dict[str, Kept]) -> dict[str, str]:
    """A page is as old as its oldest row."""
    oldest = min(kept.values(), key=lambda case: case.day)
    return {"date": oldest.day, "commit": oldest.commit}


def _copy(row: KillCount) -> KillCount:
    """With dicts, which can be written."""
    return row._replace(wrong=dict(row.wrong), beside=dict(row.beside))


def _read(content: bytes) -> dict[str, Kept]:
    return msgspec.json.decode(content, type=dict[str, Kept]) if content else {}


def _table(story: KillStory, kept: dict[str, Kept]) -> str:
    """In the order of the story, whatever was run last."""
    labels = [label for label in _list_labels(story) if label in kept]
    rows = [(*row.cells, kept[label].day) for label in labels for row in kept[label].rows]
    return format_table((*list_heads(story, kept[labels[0]].rows[0]), "on"), rows)


def list_heads(story: KillStory, row: KillCount) -> tuple[str, ...]:
    return "killed", "kills", story.sent, story.stored, "lost", "double", *row.wrong, *row.beside


def _note(story: KillStory, kept: dict[str, Kept]) -> str:
    absent = [label for label in _list_labels(story) if label not in kept]
    return f"{NOT_RUN.format('; '.join(absent))}\n\n{story.note}" if absent else story.note


def _list_labels(story: KillStory) -> list[str]:
    return [str(case.plan) for case in story.long]
