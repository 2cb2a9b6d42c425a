"""The page: what each cell came to, as Markdown. Pure."""

from collections.abc import Mapping, Sequence

from tests.refusals.matrix import Cell

HEAD = "| process | store | refusal | JetStream's number | others failed | the message, meanwhile | once it is mended | ready | holds |"
RULE = "|---|---|---|---:|---:|---|---|---|---|"


def render_page(facts: Mapping[str, str], cells: Sequence[Cell]) -> str:
    told = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    kept = sum(cell.holds for cell in cells)
    rows = "\n".join(_render_row(cell) for cell in cells)
    return f"""# The matrix of refusals

Made by `python -m tests.refusals` (`make refusals`); nothing here was written by hand.

{told}
- {kept} of {len(cells)} cells hold

A store of effects refuses each publish, as an operator can cause it by the nats tool. One message needs that store;
thirteen others need none. Then the store is made whole again. *Waits*: the message has no answer and no ack.
Where a router writes to a store beside its messages, the message is a push, and is *ok*. What is told or stored in
its place is what [the table of the contract](../../docs/reference/contracts.md#cannot-be-stored) says. Each cell has a
server of its own.

{HEAD}
{RULE}
{rows}
"""


def _render_row(cell: Cell) -> str:
    end = cell.end if cell.end != cell.told else ""
    values = [cell.process, cell.store, cell.refusal.name, cell.refusal.code, cell.others_failed, cell.told, end]
    return "| " + " | ".join([*map(str, values), "yes" if cell.is_well else "**no**", "yes" if cell.holds else "**no**"]) + " |"
