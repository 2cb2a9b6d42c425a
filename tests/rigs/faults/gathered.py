"""What the ledger is made of, collected when all is quiet: from the clients, from what workers
said, from the server's streams.
"""

from collections.abc import Iterable
from typing import Any

import orjson
from nats.aio.client import Client

from tests.rigs.faults.ledger import Facts, Letter
from tests.rigs.faults.load import POISONED, SINGLE, Load
from tests.rigs.faults.stage import Stage
from tests.rigs.faults.standing import Standing, standing

HOPELESS_LETTERS = "caf.exec.dlq.v1"


async def gathered(client: Client, stage: Stage, load: Load) -> Facts:
    """Everything there is to know, once all is quiet."""
    streams = stage.settings.streams
    decide, assignments, results, usage, dlq = [
        await standing(client, stream.name)
        for stream in (
            streams.decide,
            streams.assignments,
            streams.results,
            streams.usage,
            streams.dlq,
        )
    ]
    poisoned = {one.name for one in load.asked.values() if one.kind == POISONED}
    singles = {one.name for one in load.asked.values() if one.kind == SINGLE}
    decide_letters = f"{stage.settings.decide.subject}.dlq"
    result_letters = f"{stage.settings.results.subject}.dlq"
    return Facts(
        asked=load.asked,
        poisons=load.poisons,
        copies=[(found.msg_id, found.sequence) for found in decide if found.msg_id in poisoned],
        assigned=[str(orjson.loads(found.data)["request_id"]) for found in assignments],
        executed=[
            str(line["assignment_id"])
            for worker in stage.workers
            for line in worker.said()
            if line.get("event") == "worker.handled"
        ],
        results=[
            str(orjson.loads(found.data)["assignment_id"])
            for found in results
            if found.msg_id not in load.poisons
        ],
        hopeless=[
            str(orjson.loads(found.data)["assignment_id"])
            for found in dlq
            if found.subject == HOPELESS_LETTERS
        ],
        metered=[str(orjson.loads(found.data)["assignment_id"]) for found in usage],
        dead_letters=_written(dlq, decide_letters),
        result_letters=_written(dlq, result_letters),
        stored_singles=frozenset(found.msg_id for found in decide if found.msg_id in singles),
    )


def _written(dlq: Iterable[Standing], subject: str) -> list[Letter]:
    told = [orjson.loads(found.data) for found in dlq if found.subject == subject]
    return [_read_letter(letter) for letter in told]


def _read_letter(letter: dict[str, Any]) -> Letter:
    """One of a message that broke its contract has no attempts: it was not handled."""
    body = letter["message"]["payload"].encode()
    return Letter(
        letter["msg_id"],
        letter["source"]["sequence"],
        body,
        letter["reason"],
        letter.get("attempts", 0),
    )
