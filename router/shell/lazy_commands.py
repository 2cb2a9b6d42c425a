"""Commands that are loaded when they are called.

A table names each command by its place, `module:function`. Lists need its help: `router --help`,
that of a group, and the completion of a shell. They take the help from the text of the file.
The module is imported when the command itself is asked for:

    router --help            get_command("dlq"), get_command("policy"), ...    imports no command
    router policy --help     resolve_command("policy"), then lists             imports no command
    router policy put ...    resolve_command("put")                            imports policies
    deploy/commands_page     `group.commands.items()`                          imports all of them
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

PACKAGE = Path(__file__).parents[1]
Panels = Mapping[str | None, Mapping[str, "Place"]]


class GroupPlace(NamedTuple):
    """A group's help and its commands; `own` is the place of what it does without one of them.

    `hands_on`: all arguments that begin with none of its commands are those of `own`, `--help` too.
    """

    help: str
    commands: Mapping[str, Place]
    own: str | None = None
    hands_on: bool = False


Place = str | GroupPlace


class LazyGroup(TyperGroup):
    """A group by its table: `get_command` answers what is listed, `commands` what can be called."""

    panels: ClassVar[Panels] = {}
    hands_on: ClassVar[bool] = False

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._listed = {name: (panel, place) for panel, name, place in self.list_places()}
        places = {name: place for name, (_, place) in self._listed.items()}
        self.commands: Any = LoadedCommands(places)

    def list_places(self) -> list[tuple[str | None, str, Place]]:
        """Return panel, name and place of each; commands before groups, as typer lists them."""
        panels = self.panels.items()
        places = [(panel, *item) for panel, commands in panels for item in commands.items()]
        return sorted(places, key=lambda place: isinstance(place[2], GroupPlace))

    def list_commands(self, ctx: Any) -> list[str]:
        return [*self._listed]

    def get_command(self, ctx: Any, cmd_name: str) -> TyperCommand | None:
        """Return what lists show of a command: its name, its help, its panel."""
        if cmd_name not in self._listed:
            return None
        panel, place = self._listed[cmd_name]
        return TyperCommand(cmd_name, help=read_help(place), rich_help_panel=panel)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if self.hands_on and not (args and args[0] in self._listed):
            ctx.args = args
            return args
        return super().parse_args(ctx, args)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        name, command, rest = super().resolve_command(ctx, args)
        return name, self.commands[name] if name is not None else command, rest


class LoadedCommands(Mapping[str, Any]):
    """The commands of a group by name; each is loaded when it is first asked for."""

    def __init__(self, places: Mapping[str, Place]) -> None:
        self._waiting = dict(places)
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            self._loaded[name] = load_command(name, self._waiting[name])
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._waiting)

    def __len__(self) -> int:
        return len(self._waiting)


def make_group_class(panels: Panels, *, hands_on: bool = False) -> type[LazyGroup]:
    """Return the class for `typer.Typer(cls=...)`, which passes no arguments of ours."""
    return type("LazyGroup", (LazyGroup,), {"panels": panels, "hands_on": hands_on})


def load_command(name: str, place: Place) -> Any:
    """Import a command, or make a group, whose commands wait."""
    opened = _open_group(place) if isinstance(place, GroupPlace) else _open_command(name, place)
    made = typer.main.get_command(opened)
    made.name = name
    return made


def read_help(place: Place) -> str:
    """Return a command's docstring from the text of its file. A test compares both."""
    if isinstance(place, GroupPlace):
        return place.help
    module, function = _split(place)
    file = PACKAGE.joinpath(*module.split(".")[1:]).with_suffix(".py")
    begin = rf'^(?:async )?def {function}\(.*?^    """(.*?)"""'
    match = re.search(begin, file.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    return inspect.cleandoc(match[1]) if match is not None else ""


def _open_command(name: str, place: str) -> typer.Typer:
    made = typer.Typer(add_completion=False, rich_markup_mode="rich")
    made.command(name)(_load(place))
    return made


def _open_group(place: GroupPlace) -> typer.Typer:
    made = typer.Typer(
        cls=make_group_class({None: place.commands}, hands_on=place.hands_on),
        help=place.help,
        no_args_is_help=place.own is None,
        invoke_without_command=place.own is not None,
        context_settings={"ignore_unknown_options": True} if place.hands_on else None,
        add_completion=False,
        rich_markup_mode="rich",
    )
    made.callback()(_load(place.own) if place.own is not None else _do_nothing)
    return made


def _do_nothing() -> None: ...


def _load(place: str) -> Any:
    module, function = _split(place)
    return getattr(import_module(module), function)


def _split(place: str) -> tuple[str, str]:
    module, _, function = place.partition(":")
    return module, function
