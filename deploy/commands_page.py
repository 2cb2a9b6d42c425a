"""The page of all commands, made of their help and of commands_head.txt: `python
deploy/commands_page.py > docs/reference/commands.md`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import typer

from router.cli.app import PANELS, app

HEAD = Path(__file__).with_name("commands_head.txt").read_text("utf-8")
_MARKUP = re.compile(r"\[/?(?:bold|dim|italic)\]")
_SENTENCE = re.compile(r"[^.]*(?:\.(?=\S)[^.]*)*\.")
_BETWEEN_EXAMPLES = re.compile(r" {2,}(?=\S)")
SHARED = ("--nats-url", "--config", "--json")

# typer's own classes of commands and groups have no public types.
Command = Any


def build_page() -> str:
    top = typer.main.get_command(app)
    commands = dict(_list_commands(top, ("router",)))
    contents = "".join(_build_contents(panel, names, commands) for panel, names in PANELS.items())
    return (
        HEAD
        + contents
        + "".join(_build_panel(panel, names, commands) for panel, names in PANELS.items())
    )


def _list_commands(
    command: Command, path: tuple[str, ...]
) -> Iterator[tuple[tuple[str, ...], Command]]:
    """Each command and each group below it, a group before its commands."""
    yield path, command
    for name, child in getattr(command, "commands", {}).items():
        if not child.hidden:
            yield from _list_commands(child, (*path, name))


def _build_contents(
    panel: str, names: Iterable[str], commands: dict[tuple[str, ...], Command]
) -> str:
    """A table of a panel's commands, each with the first sentence of its help."""
    rows = "".join(
        f"| [`{' '.join(path)}`](#{'-'.join(path)}) | {_find_sentence(one)} |\n"
        for name in names
        for path, one in commands.items()
        if path[1:2] == (name,) and _is_command(one)
    )
    return f"\n| {panel} | |\n|---|---|\n{rows}"


def _is_command(one: Command) -> bool:
    """Whether it can be typed as it is: a group cannot, but for one that does something without a
    subcommand.
    """
    return not getattr(one, "commands", None) or bool(one.invoke_without_command)


def _find_sentence(command: Command) -> str:
    sentence = _SENTENCE.match(_MARKUP.sub("", command.help or ""))
    return (
        (sentence[0] if sentence else (command.help or "")).replace("\n", " ").replace("|", "\\|")
    )


def _build_panel(panel: str, names: Iterable[str], commands: dict[tuple[str, ...], Command]) -> str:
    sections = (
        _build_section(path, one)
        for name in names
        for path, one in commands.items()
        if path[1:2] == (name,)
    )
    return f"\n## {panel}\n{''.join(sections)}"


def _build_section(path: tuple[str, ...], command: Command) -> str:
    text, _, examples = _MARKUP.sub("", command.help or "").partition("Example:")
    name, level = " ".join(path), "#" * (1 + len(path))
    shown = "".join(
        f"{one}\n" for one in _BETWEEN_EXAMPLES.sub("\n", examples.strip()).splitlines()
    )
    example = f"\n```sh\n{shown}```\n" if shown else ""
    return f"\n{level} {name}\n\n{text.strip()}\n{example}{_build_options(command)}"


def _build_options(command: Command) -> str:
    """Arguments first, then the command's own options, then the names of those that many commands
    share.
    """
    if not _is_command(command):
        return ""
    parameters = [one for one in command.params if not getattr(one, "hidden", False)]
    rows = "".join(
        _build_row(one) for one in sorted(parameters, key=_is_option) if one.opts[0] not in SHARED
    )
    shared = ", ".join(f"`{one.opts[0]}`" for one in parameters if one.opts[0] in SHARED)
    table = f"\n| option | what it does | default |\n|---|---|---|\n{rows}" if rows else ""
    return f"{table}\n{'And ' if rows else 'Options: '}{shared}.\n" if shared else table


def _is_option(parameter: Command) -> bool:
    return parameter.param_type_name != "argument"


def _build_row(parameter: Command) -> str:
    name = (
        ", ".join((*parameter.opts, *parameter.secondary_opts))
        if _is_option(parameter)
        else (parameter.metavar or parameter.name).upper()
    )
    text, _, said = (parameter.help or "").replace("|", "\\|").partition("Default: ")
    default = (
        "required" if parameter.required else said.removesuffix(".") or _format_default(parameter)
    )
    return f"| `{name}` | {text.strip()} | {default} |\n"


def _format_default(parameter: Command) -> str:
    if parameter.default is True:
        return f"`{parameter.opts[0]}`"
    if parameter.default in (None, False, (), []) or callable(parameter.default):
        return ""
    return f"`{parameter.default}`"


if __name__ == "__main__":
    print(build_page(), end="")
