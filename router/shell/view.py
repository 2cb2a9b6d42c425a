"""How an object is shown, said once: in a terminal, to programs, in the console and its exports.

DEAD_LETTERS = View(
    ViewColumn("reason", label="Reason"),             in both
    ViewColumn("message_id", of="msg_id"),            in a terminal alone: it has no label
    ViewColumn("bytes", title=None, label="Bytes"),   in the console alone: it has no title
    fields=as_fields,
)

router dlq list            view.titles, view.list_cells(record)
router dlq list --json     view.fields(record)
a page, its CSV and JSON   view.make_table(records): view.page_columns, view.build_row(record)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, reduce
from typing import Any

from msgspec import UNSET, Struct, UnsetType, to_builtins

from router.shell.table import Cell, Column, Row, Table, TableFilter


class ViewColumn(Struct, frozen=True):
    """One column. `title` heads it in a terminal, where it is not the key's words; `label` in the
    console. None: it is not there.

    `of` is the path of the value, such as `record.author`, or a function of the record; without it,
    `key`. A path goes through attributes and entries, and ends where one of them is None or lacks
    an entry: the value is absent. `tell` formats a value for a terminal, and `page` for the
    console. `kind` and `href` are those of the console's `Column`.
    """

    key: str
    title: str | UnsetType | None = UNSET
    label: str | None = None
    of: str | Callable[[Any], Any] = ""
    tell: Callable[[Any], object] | None = None
    page: Callable[[Any], Cell] | None = None
    kind: str = "text"
    href: str | None = None

    def make_reader(self) -> Callable[[Any], Any]:
        if callable(self.of):
            return self.of
        names = (self.of or self.key).split(".")
        return lambda record: reduce(_read, names, record)


class View:
    """The columns of one kind of record. What `links` returns goes into the console's row, too.

    `fields` returns what `--json` prints of a record. `page_first` names the columns that stand
    first in the console, where a terminal has them later.
    """

    def __init__(
        self,
        *columns: ViewColumn,
        fields: Callable[[Any], Any] = to_builtins,
        links: Callable[[Any], Row] = lambda _: {},
        page_first: Sequence[str] = (),
    ) -> None:
        self.columns = columns
        self.fields = fields
        self._links = links
        self._page_first = page_first

    @cached_property
    def titles(self) -> Sequence[str]:
        named = [(column.key, column.title) for column in self.columns if column.title is not None]
        return [key.replace("_", " ") if title is UNSET else str(title) for key, title in named]

    def list_cells(self, record: object) -> Sequence[object]:
        """Return a record's line in a terminal."""
        return [_show(read(record), tell) for read, tell in self._terminal_readers]

    @cached_property
    def page_columns(self) -> tuple[Column, ...]:
        first = [column for key in self._page_first for column in self.columns if column.key == key]
        columns = [*first, *(column for column in self.columns if column not in first)]
        labels = [(column, column.label) for column in columns if column.label is not None]
        return tuple(
            Column(column.key, label, column.kind, column.href) for column, label in labels
        )

    def build_row(self, record: object) -> Row:
        """Return a record's row in the console: a cell for each column, and the links."""
        cells = {key: _show(read(record), page) for key, read, page in self._page_readers}
        return {**cells, **self._links(record)}

    def make_table(
        self,
        records: Iterable[object],
        *,
        empty: str,
        filters: tuple[TableFilter, ...] = (),
        note: str = "",
        choose: str = "",
    ) -> Table:
        """Return the records as a table of the console."""
        return Table(
            columns=self.page_columns,
            rows=[self.build_row(record) for record in records],
            empty=empty,
            filters=filters,
            note=note,
            choose=choose,
        )

    @cached_property
    def _terminal_readers(
        self,
    ) -> Sequence[tuple[Callable[[Any], Any], Callable[[Any], object] | None]]:
        shown = [column for column in self.columns if column.title is not None]
        return [(column.make_reader(), column.tell) for column in shown]

    @cached_property
    def _page_readers(
        self,
    ) -> Sequence[tuple[str, Callable[[Any], Any], Callable[[Any], Cell] | None]]:
        shown = [column for column in self.columns if column.label is not None]
        return [(column.key, column.make_reader(), column.page) for column in shown]


def _read(row: Any, name: str) -> Any:
    if row is None:
        return None
    return row.get(name) if isinstance(row, Mapping) else getattr(row, name)


def _show(value: Any, form: Callable[[Any], Any] | None) -> Any:
    """Format a value; an absent one stays absent."""
    return value if form is None or value is None else form(value)
