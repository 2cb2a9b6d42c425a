"""Named places at which a test can kill the process: `CRASHPOINT=after_commit:7` ends it at the
seventh pass.

As `kill -9` would: no cleanup, no flush, exit status 137. Without that variable a crash point is an
empty function.

    before_create   after_create     around the record of an assignment
    before_publish                     no effect of the message is published
    after_publish                      they are published; no publish ack has arrived
    after_commit                    they are stored and committed; no reply is sent
    after_ack                      the ack is written, and may be lost with the process

    invocation_recorded                an attempt's record is stored; its provider is not called
    invocation_ended                 the provider has answered, or failed; no usage event is
                                     published
    invocation_metered               the usage event is stored; the attempt's record stands, and no
                                     answer went out

    replay_noted                     a replay of dead letters recorded its targets; no message is
                                     published
    replay_posted   replay_proven    messages are being published, or stored; their dead letters
                                     still exist
    replay_removed                   the dead letters of one batch are deleted; the next batch is
                                     not started
    replay_ending                    all is done; the replay's record still exists
    replay_finished                  an earlier replay was finished; its record still exists

    adjustment_stored                an operator's adjustment of usage is stored; its audit event is
                                     not
    audit_recording                  a command's write is done; its audit event is not stored

    agent_received                   a batch of an agent's messages is read
    agent_deduplicated               the store was searched for duplicates
    agent_persisted                  they are stored as received; none is applied
    agent_applying                   they are applied, and not committed
    agent_applied                    committed; no message is published

    inbox_received                   the rows of a batch are committed; no handler was started
    inbox_handling  inbox_handled    a handler is about to run; it has answered, and its row is not
                                     updated
    inbox_marked                     the rows are updated; no message is acknowledged
    inbox_dead_letter_stored              a dead letter is stored; its row is not updated

    bus_processed                    a consumer's handler is done; its key is not marked
    bus_marking                      its key, and what it wrote, are in a transaction that is not
                                     committed
    bus_marked                       they are committed; no message is acknowledged

    lake_after_write                 all files of a micro-batch are written; no commit names them
    lake_after_bronze  …_quarantine  …_duplicates  …_conflicts    this table is committed; silver is
                                                   not
    lake_after_silver                silver, the truth of progress, is committed; gold is not
    lake_after_gold                  all tables are committed; no cut names their versions
    lake_after_commit                the batch is done; Spark does not know it

    outbox_claimed                   the relay has claimed rows; none is published
    batch_open                       an atomic batch is published, except its commit
    outbox_stored                    its publish ack has arrived; its rows are not marked
    outbox_marked                    the batch's rows are marked; the transaction is open
    outbox_committed                 the transaction is committed
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

KILLED_EXIT_CODE = 137

Point = Callable[[str], None]


def _do_nothing(_: str) -> None:
    """No crash point is set."""


def _create_point(target: str, passes: int, die: Callable[[], None]) -> Point:
    def point(name: str) -> None:
        nonlocal passes
        if name == target:
            passes -= 1
            if not passes:
                die()

    return point


def _die() -> None:
    os._exit(KILLED_EXIT_CODE)


def _die_after_flush(turns: int = 3) -> None:
    """Write pending messages first: the flusher needs a turn of the loop to wake up and one to
    write.
    """
    if turns:
        asyncio.get_running_loop().call_soon(_die_after_flush, turns - 1)
    else:
        _die()


def _resolve(setting: str | None, die: Callable[[], None]) -> Point:
    if not setting:
        return _do_nothing
    name, _, passes = setting.partition(":")
    return _create_point(name, int(passes or 1), die)


crashpoint = _resolve(os.environ.get("CRASHPOINT"), _die)
# the same, after pending messages are written
crashpoint_sent = _resolve(os.environ.get("CRASHPOINT"), _die_after_flush)
