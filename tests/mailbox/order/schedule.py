"""What is drawn of one interleaving: how its writers lock and add, and whose step is next. Pure: a
seed is a schedule.
"""

from random import Random

from msgspec import Struct

STEPS = ("begin", "lock", "add", "commit")

LOCKS = {
    "update": "UPDATE orders SET changes = changes + 1 WHERE id = %s",
    "for update": "SELECT FROM orders WHERE id = %s FOR UPDATE",
    "advisory": "SELECT pg_advisory_xact_lock(hashtext(%s))",
}
WAYS = ("outbox.add", "outbox.add with a time", "plain SQL", "one statement")


class WriterPlan(Struct, frozen=True):
    """`ages`: how many seconds ago each of its events says that it occurred."""

    lock: str
    way: str
    ages: tuple[int, ...]


class Interleaving(Struct, frozen=True):
    """`turns`: whose step is next; each writer stands there once for each of its steps."""

    aggregate: str
    writers: tuple[WriterPlan, ...]
    turns: tuple[int, ...]


def draw_interleaving(draw: Random, number: int, writers: int) -> Interleaving:
    """Writers of one aggregate take the same lock; each adds one to three events in its own way."""
    lock = draw.choice(tuple(LOCKS))
    plans = tuple(_draw_writer(draw, lock) for _ in range(writers))
    turns = [writer for writer in range(writers) for _ in STEPS]
    draw.shuffle(turns)
    return Interleaving(f"o-{number}", plans, tuple(turns))


def _draw_writer(draw: Random, lock: str) -> WriterPlan:
    """One statement locks by its UPDATE: beside writers that lock otherwise it would lock nothing
    of theirs.
    """
    way = draw.choice(WAYS if lock == "update" else WAYS[:-1])
    return WriterPlan(lock, way, tuple(draw.randrange(3600) for _ in range(draw.randint(1, 3))))
