"""Pages that a long test leaves for readers, in bench/results."""

from collections.abc import Iterable, Sequence
from pathlib import Path

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


def write_page(name: str, title: str, table: str, note: str, results: Path = RESULTS) -> None:
    """Write bench/results/{name}.md; `note` says how the table came about."""
    (results / f"{name}.md").write_text(f"# {title}\n\n{table}\n{note}\n")
