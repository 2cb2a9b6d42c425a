"""A router whose messages all fail, and a file that says how often each was begun.

`python -m tests.support.failing_router --policies DIR`.

Its settings come from the environment.

The whole router; its decide handler raises after the real one has read the request. What a handler
begins and which violations are counted is appended to a file as it happens, so that a kill loses
none of it: one line each, `KIND SEQUENCE`.
"""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson

from router.config import load
from router.core.message import Message
from router.core.outcome import Handler, Outcome
from router.operate.violations.violations import Violations
from router.operate.violations.windows import BrokenContract
from router.serve import decide_subscription, subscriptions
from router.serve.service import RouterService
from tests.support.kills import KilledProcess

BEGUN, VIOLATED = "begun", "violated"


class FailingRouter(KilledProcess):
    """The process. `witness`: where it writes, together with all others."""

    command = ("tests.support.failing_router",)

    def __init__(self, settings: dict[str, object], witness: Path) -> None:
        super().__init__(settings)
        self._environ["WITNESS"] = str(witness)


def seen(witness: Path, kind: str) -> Counter[int]:
    """How often something was seen of each stored message, by its sequence. A copy, live or read
    ahead, is no attempt and has none.
    """
    lines = (line.split() for line in witness.read_text().splitlines())
    return Counter(int(sequence) for of, sequence in lines if of == kind and sequence != "0")


def _write(kind: str, sequence: int) -> None:
    # one write: lines of several processes do not mix
    os.write(_FILE, f"{kind} {sequence}\n".encode())


def _watched(make: Callable[[Any], Handler], *, raises: bool = False) -> Callable[[Any], Handler]:
    def make_watched(context: Any) -> Handler:
        handle = make(context)

        def begin(message: Message) -> Outcome | Awaitable[Outcome]:
            # what is read ahead of the durable is a copy, too
            _write(BEGUN, message.sequence if message.ack_subject else 0)
            outcome = handle(message)
            if raises:
                raise RuntimeError("whatever it is asked")
            return outcome

        return begin

    return make_watched


if __name__ == "__main__":
    _FILE = os.open(os.environ["WITNESS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    decide_subscription.build_decide_handler = _watched(
        decide_subscription.build_decide_handler, raises=True
    )  # type: ignore[assignment]
    subscriptions.build_results_handler = _watched(subscriptions.build_results_handler)  # type: ignore[assignment]
    subscriptions.build_acknowledgement_handler = _watched(
        subscriptions.build_acknowledgement_handler
    )  # type: ignore[assignment]
    note = Violations.note

    def note_and_write(self: Violations, broken: BrokenContract) -> None:
        _write(VIOLATED, broken.sequence)
        note(self, broken)

    Violations.note = note_and_write  # type: ignore[method-assign]
    service = RouterService(load().settings, policies_dir=Path(sys.argv[2]))
    asyncio.run(
        service.run(
            lambda _: print(orjson.dumps({"event": FailingRouter.announces}).decode(), flush=True)
        )
    )
