"""The commands that a text names, held against those that there are."""

import re
from collections.abc import Iterator
from functools import cache

import typer
from typer.core import TyperGroup

from router.cli.app import app

Command = typer.core.TyperCommand | TyperGroup

_NAMED = re.compile(r"`router ([a-z][^`]*)`")
_OPTION = re.compile(r"--[a-z][a-z-]*")


@cache
def tree() -> TyperGroup:
    made = typer.main.get_command(app)
    assert isinstance(made, TyperGroup)
    return made


def every_command(
    group: Command | None = None, path: str = "router"
) -> Iterator[tuple[str, Command]]:
    """(`router dlq list`, the command), for all that do something."""
    group = group or tree()
    if not isinstance(group, TyperGroup):
        yield path, group
        return
    for name, command in group.commands.items():
        yield from every_command(command, f"{path} {name}")


def examples_in(text: str) -> str:
    """The examples of a command's help, which stand four spaces apart, each as a text names one."""
    _, _, examples = text.partition("Example:  ")
    return "\n".join(
        f"`{example.strip()}`" for example in re.split(r"\s{4,}|\n", examples) if example.strip()
    )


def find_wrong_commands(text: str) -> list[str]:
    """The commands of a text that cannot be typed like that."""
    return [named for named in _NAMED.findall(text) if not _is_right(named)]


def _is_right(named: str) -> bool:
    command: Command = tree()
    words = named.split()
    while isinstance(command, TyperGroup) and words and words[0] in command.commands:
        command = command.commands[words.pop(0)]
    # a group may do something itself
    if isinstance(command, TyperGroup) and words and not words[0].startswith("--"):
        return False
    known_options = {
        option
        for parameter in command.params
        for option in (*parameter.opts, *parameter.secondary_opts)
    } | {"--help"}
    # it hands them on
    return set(_OPTION.findall(named)) <= known_options or bool(
        command.context_settings.get("ignore_unknown_options")
    )
