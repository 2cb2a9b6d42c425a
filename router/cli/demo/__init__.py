"""`router demo`: the product in a few seconds, on a broker of its own that leaves nothing behind.

story     what is asked, in which form, and what must be answered
stage     a broker in a temporary directory, a router, a client
telling   the tables
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from router.cli import ends
from router.cli.options import AsJson

if TYPE_CHECKING:
    from router.cli.demo.telling import Telling

__all__ = ["demo"]


def demo(as_json: AsJson = False) -> None:
    """Start a router on a NATS server of its own, ask it in every form, show a dead letter and what was counted.

    Exit status: 0 everything was as it should be, 1 something was not.

    Example:  router demo
    """
    from router.cli.demo.telling import Lines, Tables

    ends.run(_play(Lines() if as_json else Tables()))


async def _play(telling: Telling) -> int:
    from router.cli.demo.stage import on_stage
    from router.cli.demo.story import BROKEN, STEPS, counted_wrong, letter_wrong, wrong
    from router.observability import configure

    configure("error")
    problems: list[str] = []
    async with on_stage() as stage:
        telling.begins(stage.ready)
        asked = [await stage.asked(step) for step in STEPS]
        telling.answers(asked)
        refused, letter = await stage.asked(BROKEN), await stage.newest_letter()
        telling.letter(refused, letter)
        counted = await stage.counted()
        telling.counts(counted)
        problems += [*wrong([*asked, refused]), *letter_wrong(letter), *counted_wrong(counted)]
    telling.ends(problems)
    return ends.NO if problems else ends.OK
