"""Named places at which a test may kill the process: `CRASHPOINT=after_receipt:7` ends it at the seventh pass.

As `kill -9` would: no cleanup, no flush, exit status 137. Without that variable a crash point is an empty function.

    before_create   after_create     around the record of an assignment
    before_store                     nothing of the message's effects is published
    after_store                      they are on their way; no receipt is in
    after_receipt                    they are stored and committed; nobody is answered
    after_stamp                      the stamp is posted, and may be lost with the process

    replay_noted                     a replay of letters wrote down where it will send to; nothing is sent
    replay_posted   replay_proven    messages are on their way, or stand there; their letters do, too
    replay_removed                   the letters of one handful are gone; the next is not begun
    replay_ending                    all is done, and not yet crossed out
    replay_finished                  what an earlier replay left is done, and not yet crossed out

    agent_received                   a batch of an agent's messages is read; nothing of them is known yet
    agent_deduplicated               the store was asked about them
    agent_persisted                  they are received; none is applied
    agent_applying                   they are applied, and not committed
    agent_applied                    committed; nothing is published

    inbox_received                   receipts of a handful are committed; no handler was begun
    inbox_handling  inbox_handled    a handler is about to run; it has answered, and no row says so
    inbox_marked                     the rows say so; nothing is acknowledged
    inbox_letter_stored              a dead letter stands; its row is not marked

    bus_processed                    a consumer's handler is done; its key is not marked
    bus_marking                      its key, and what it wrote, are in a transaction that is not committed
    bus_marked                       they are; nothing is acknowledged

    lake_after_read                  a micro-batch has landed: bronze and quarantine are written, nothing else of it
    lake_after_write                 all its tables are written; no commit names them
    lake_after_commit                they count; nobody was told
    lake_before_checkpoint           the batch is done, and Spark did not write that down

    outbox_claimed                   the relay holds rows; nothing of them is sent
    batch_open                       an atomic batch is on its way, all but its commit
    outbox_stored                    its receipt is in; its rows are not marked
    outbox_marked                    the round's rows are marked; the transaction is open
    outbox_committed                 the round is over
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

KILLED = 137

Point = Callable[[str], None]


def _nowhere(_: str) -> None:
    """The process lives."""


def _armed(wanted: str, passes: int, die: Callable[[], None]) -> Point:
    def point(name: str) -> None:
        nonlocal passes
        if name == wanted:
            passes -= 1
            if not passes:
                die()

    return point


def _die() -> None:
    os._exit(KILLED)


def _die_once_sent(turns: int = 3) -> None:
    """What was posted before leaves first: the flusher needs a turn of the loop to wake and one to write."""
    if turns:
        asyncio.get_running_loop().call_soon(_die_once_sent, turns - 1)
    else:
        _die()


def _resolve(setting: str | None, die: Callable[[], None]) -> Point:
    if not setting:
        return _nowhere
    name, _, passes = setting.partition(":")
    return _armed(name, int(passes or 1), die)


crashpoint = _resolve(os.environ.get("CRASHPOINT"), _die)
crashpoint_sent = _resolve(os.environ.get("CRASHPOINT"), _die_once_sent)  # the same, once what was posted is on its way
