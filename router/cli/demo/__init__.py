"""`router demo`: the product in a few seconds, on a temporary broker that leaves nothing behind.

requests     the requests, and the answers that they must get
round_trip   one request, followed to its usage event
repair       an unreadable result: dead letter, edited, replayed, metered
chapters     the three chapters: what is done, what is printed, what is checked
environment  a broker in a temporary directory, a router, a worker, a client
recorder     records the published messages with their times
printing     tables for people, JSON lines for programs
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli import ends
from router.cli.options import AsJson

if TYPE_CHECKING:
    from router.cli.demo.telling import Telling

__all__ = ["demo"]


def demo(as_json: AsJson = False) -> None:
    """Start a router and a worker on a NATS server of its own: decisions, the whole circle, dead letters, a replay.

    Exit status: 0 every check passed, 1 one did not.

    Example:  router demo
    """
    from router.cli.demo.telling import Lines, Tables

    ends.run(_play(Lines() if as_json else Tables()))


async def _play(telling: Telling) -> int:
    from router.cli.demo.acts import circle, decisions, mending
    from router.cli.demo.stage import on_stage
    from router.cli.demo.story import counted_wrong
    from router.observability import configure

    configure("error")
    problems: list[str] = []
    async with on_stage() as stage:
        telling.begins(stage.ready)
        for act in (decisions, circle, mending):
            problems += await act(stage, telling)
        counted = await stage.counted()
        telling.counts(counted)
        problems += counted_wrong(counted)
    telling.ends(problems)
    return ends.NO if problems else ends.OK
