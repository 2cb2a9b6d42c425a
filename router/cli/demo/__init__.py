"""`router demo`: the product in a few seconds, on a temporary broker that leaves nothing behind.

requests     the requests, and the answers that they must get
round_trip   one request, followed to its usage event
chapters     the three chapters: what is done, what is printed, what is checked; an unreadable
             result is repaired
environment  a broker in a temporary directory, a router, a worker, a client
recorder     records the published messages with their times
printing     tables for people, JSON lines for programs
"""

from __future__ import annotations

from router.shell import exit_codes
from router.shell.command_frame import CommandSession, command, skip_settings

__all__ = ["demo"]


@command(skip_settings)
async def demo(session: CommandSession) -> int:
    """Start a router and a worker on a NATS server of its own: decisions, the whole circle, dead
    letters, a replay.

    Exit status: 0 every check passed, 1 one did not.

    Example:  router demo
    """
    from router.cli.demo.chapters import play_decisions, play_repair, play_round_trip
    from router.cli.demo.environment import open_environment
    from router.cli.demo.printing import DemoPrinter
    from router.cli.demo.requests import check_counters
    from router.process.observability import configure

    telling = DemoPrinter(as_json=session.as_json)
    configure("error")
    problems: list[str] = []
    async with open_environment() as stage:
        telling.print_start(stage.ready)
        for act in (play_decisions, play_round_trip, play_repair):
            problems += await act(stage, telling)
        counted = await stage.read_counters()
        telling.print_counters(counted)
        problems += check_counters(counted)
    telling.print_end(problems)
    return exit_codes.NO if problems else exit_codes.OK
