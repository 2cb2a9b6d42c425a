"""Pages that a long test leaves for readers, in bench/results."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bench.machine import list_facts, origin

RESULTS = Path(__file__).parents[2] / "bench" / "results"


def format_table(heads: Sequence[object], rows: Iterable[Sequence[object]], texts: int = 1) -> str:
    """Markdown. `texts`: so many columns, from the left, are no numbers; None is a dash."""
    lines = [heads, ["---"] * texts + ["---:"] * (len(heads) - texts), *rows]
    return (
        "\n".join(
            f"| {' | '.join('–' if cell is None else str(cell) for cell in line)} |"
            for line in lines
        )
        + "\n"
    )


def write_page(
    name: str,
    title: str,
    table: str,
    note: str,
    results: Path = RESULTS,
    *,
    measured: Mapping[str, str] | None = None,
) -> None:
    """Write bench/results/{name}.md; `note` says how the table came about, `measured` when and of
    which code, if not now and of this.
    """
    lines = list_facts(measured or origin())
    (results / f"{name}.md").write_text(f"# {title}\n\n{lines}\n\n{table}\n{note}\n")
