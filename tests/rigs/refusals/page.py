"""The page: what each cell came to, as Markdown. Pure."""

from collections.abc import Mapping, Sequence

from tests.rigs.refusals.matrix import Cell

HEAD = (
    "| process | store | refusal | JetStream's number | others failed | the message, meanwhile "
    "| once it is mended | ready | holds |"
)
RULE = "|---|---|---|---:|---:|---|---|---|---|"


def render_page(facts: Mapping[str, str], cells: Sequence[Cell]) -> str:
    told = "\n".join(f"- {name}: {value}" for name, value in facts.items())
    kept = sum(cell.holds for cell in cells)
    rows = "\n".join(_render_row(cell) for cell in cells)
    return f"""# The matrix of refusals

Made by `python -m tests.rigs.refusals` (`make refusals`); nothing here was written by hand.

{told}
- {kept} of {len(cells)} cells hold

A stream or a bucket refuses each publish, or changes what it takes, as an operator can cause it by the nats tool. JetStream's number is
that of the refusal; 0: it takes the publish. One message needs that store; thirteen others need none. Then the store is made whole again.
*Waits*: the message has no answer and no ack. A worker and a relay store whatever they do in one stream, so there all thirteen wait too,
and none may be lost; a worker whose *results* are refused does nothing twice. Where a router writes to a store beside its messages,
the message is a push (for violations, one that breaks the header contract; for audits and policies, an operator's write). Where an
operator renames the subjects of a stream of input (`subject_transform`), no consumer is given the message, so there is no such cell:
readiness and `router doctor` name it. An extension and a provider store nothing. What is told or stored in
its place is what [the table of the contract](../../docs/reference/contracts.md#cannot-be-stored) says. Each cell has a server of its own.

{HEAD}
{RULE}
{rows}
"""


def _render_row(cell: Cell) -> str:
    end = cell.end if cell.end != cell.told else ""
    values = [
        cell.process,
        cell.store,
        cell.refusal.name,
        cell.refusal.code,
        cell.others_failed,
        cell.told,
        end,
    ]
    return (
        "| "
        + " | ".join(
            [
                *map(str, values),
                "yes" if cell.is_well else "**no**",
                "yes" if cell.holds else "**no**",
            ]
        )
        + " |"
    )
