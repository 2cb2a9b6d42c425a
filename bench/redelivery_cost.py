"""What does a failure cost? Every message fails once, is sent away with a NAK, comes again, is
started anew and acknowledged.

Delivery alone with a handler that does nothing: a failed first delivery and each later attempt is
counted, its PubAck awaited, before the handler runs, and the window falls to one message (it kept a
poison message's neighbours safe). The yardstick is the same subscription, undisturbed.
"""

from __future__ import annotations

from bench.question import Figure, Question
from bench.stored import StoredWork

MESSAGES = StoredWork("store.fill", 100_000)
FAILING = 10_000


QUESTION = Question(
    name="redelivery_cost",
    asks="What does a failure cost?",
    sides=(
        MESSAGES.side("failed once", "failing.settle", full=FAILING, failures=1),
        MESSAGES.side("undisturbed", "failing.settle", failures=0),
    ),
    figures=(
        Figure("rate", "messages/s", against="undisturbed"),
        Figure("cpu_us", "CPU µs/message", against="undisturbed"),
    ),
    lasts=(5.0, 10.0),
)
