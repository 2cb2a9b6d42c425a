"""A page as data: its parts, and the command that shows the same; and what a page reads with."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from enum import Enum

from msgspec import Struct

from router.config import Settings
from router.core.clock import read_instant
from router.core.legible import make_legible
from router.shell.broker_link import BrokerLink
from router.shell.sampler import Sampler
from router.shell.table import Table

MAX_VALUE = 512  # characters of a value in an address


class InvalidAddress(ValueError):
    """A value of an address cannot be meant: the text says what is legal."""


class PageNotFound(Exception):
    """There is no such thing; the text says what and why."""


class Fact(Struct, frozen=True):
    """A name and a value; `kind` as that of a column."""

    name: str
    value: str | int | float | None
    href: str | None = None
    kind: str = "text"


class FactList(Struct, frozen=True):
    """What is known of one thing; facts without a value are left out."""

    title: str
    facts: Sequence[Fact]


class TextBlock(Struct, frozen=True):
    """A longer text, such as a document."""

    title: str
    text: str
    note: str = ""


class BarChart(Struct, frozen=True):
    """One bar for each label, in order, each with its value; `bars` is not longer than a page is wide. `kind`: number | percent."""

    title: str
    bars: Sequence[tuple[str, float]]
    kind: str = "number"


class FormField(Struct, frozen=True):
    """`kind`: hidden | text | note | check | document."""

    name: str
    label: str = ""
    value: str = ""
    kind: str = "hidden"


class FormButton(Struct, frozen=True):
    """`kind`: main | danger, or plain."""

    label: str
    address: str
    kind: str = ""


class WriteForm(Struct, frozen=True):
    """A form that is shown to who may write. `name`: boxes of the table with this form's name
    belong to it.
    """

    title: str
    buttons: Sequence[FormButton] = ()
    fields: Sequence[FormField] = ()
    text: str = ""
    name: str = ""
    link: tuple[str, str] | None = None  # another way to do it: address and name


class Page(Struct, frozen=True, kw_only=True):
    """`command`: what shows the same in a terminal; `repair`: what mends it, and what that does.
    `table`: the one that is exported.

    `tabs`: addresses and names of the pages of one kind, this one among them. `tenant`: whose one
    thing the page shows.
    """

    title: str
    lead: str = ""
    command: str = ""
    repair: str = ""
    repair_note: str = ""
    back: tuple[str, str] | None = None  # address and name of the page above
    tabs: Sequence[tuple[str, str]] = ()
    charts: Sequence[BarChart] = ()
    lists: Sequence[FactList | TextBlock] = ()
    table: Table | None = None
    form: bool = True  # whether the table's filters are shown
    tenant: str | None = None
    forms: Sequence[WriteForm] = ()


class PageParams:
    """Values of an address and of its path, each bounded."""

    def __init__(self, values: Mapping[str, str], path: Mapping[str, str]) -> None:
        self.values = {name: value for name, value in values.items() if value}
        self.path = path
        for name, value in (*self.values.items(), *path.items()):
            if len(value) > MAX_VALUE:
                raise InvalidAddress(f"{name}: at most {MAX_VALUE} characters")

    def text(self, name: str) -> str | None:
        return self.values.get(name)

    def instant(self, name: str, default: str | None = None) -> datetime | None:
        """Raises InvalidAddress."""
        text = self.values.get(name, default)
        try:
            return read_instant(text) if text is not None else None
        except ValueError as exc:
            raise InvalidAddress(f"{name}: {exc}") from None

    def number(self, name: str) -> int:
        """A number of the path, from 1. Raises PageNotFound."""
        text = self.path[name]
        if not (text.isascii() and text.isdigit() and 0 < len(text) < 20 and int(text)):
            raise PageNotFound(f"{make_legible(text)} is no number")
        return int(text)


class Sources(Struct, frozen=True):
    """What pages read with."""

    settings: Settings
    link: BrokerLink
    sampler: Sampler
    origins: Mapping[str, str] = {}  # of the settings that are no defaults: where they were given


ReadPage = Callable[[Sources, PageParams], Awaitable[Page]]


class Scope(Enum):
    """By what a user who is limited to one tenant sees no other's data."""

    CLOSED = "closed"  # this page shows what concerns every tenant, and is not for them
    ASKED = "asked"  # the value `tenant` of the address is theirs, whatever it says
    PATH = "path"  # the part `tenant` of the path must be theirs
    SHOWN = "shown"  # the page's own `tenant` must be theirs


class PageSpec(Struct, frozen=True):
    """`path` with parts in braces; `label`: in the navigation; `key`: typed after g; `asks`: the
    values that reading depends on.
    """

    path: str
    read: ReadPage
    label: str | None = None
    key: str = ""
    asks: tuple[str, ...] = ()
    scope: Scope = Scope.CLOSED


def build_command(*words: str, **options: str | None) -> str:
    """A command to copy: values are quoted for a shell, and cannot steer a terminal."""
    given = [
        word
        for name, value in options.items()
        if value
        for word in (f"--{name.replace('_', '-')}", value)
    ]
    return " ".join(shlex.quote(make_legible(word)) for word in (*words, *given))
