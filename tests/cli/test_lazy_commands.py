"""A command is loaded when it is called: lists of commands import none of them."""

import inspect
import subprocess
import sys
from collections.abc import Iterator

import pytest
import typer

from router.cli.app import app
from router.shell.lazy_commands import LazyGroup, read_help
from tests.support.cli import clean_environment

LOADED = """
import sys
from router.cli import main
try:
    main()
finally:
    print(*sorted(name for name in sys.modules if name.startswith("router.")), file=sys.stderr)
"""


def list_groups(group: LazyGroup) -> Iterator[LazyGroup]:
    yield group
    for command in group.commands.values():
        if isinstance(command, LazyGroup):
            yield from list_groups(command)


def load_modules(*arguments: str, **environ: str) -> set[str]:
    """The modules of the package that a call of the command loads, in a process of its own."""
    command = [sys.executable, "-c", LOADED, *arguments]
    given = clean_environment(environ)
    ended = subprocess.run(command, capture_output=True, text=True, env=given, check=True)
    return set(ended.stderr.split())


def test_the_help_that_is_listed_is_that_of_the_loaded_command() -> None:
    top = typer.main.get_command(app)
    assert isinstance(top, LazyGroup)
    compared = 0
    for group in list_groups(top):
        for panel, name, place in group.list_places():
            command = group.commands[name]
            assert inspect.cleandoc(command.help or "") == read_help(place), name
            assert command.name == name, panel
            compared += 1
    assert compared > 100


@pytest.mark.parametrize("group", ["", "policy", "policy canary"])
def test_a_list_of_commands_loads_none_of_them(group: str) -> None:
    loaded = load_modules(*group.split(), "--help")
    assert "router.shell.lazy_commands" in loaded
    assert {name for name in loaded if "commands" in name} == {"router.shell.lazy_commands"}


def test_a_completion_loads_none_of_them() -> None:
    words = {"COMP_WORDS": "router policy ca", "COMP_CWORD": "2"}
    loaded = load_modules(_ROUTER_COMPLETE="complete_bash", **words)
    assert {name for name in loaded if "commands" in name} == {"router.shell.lazy_commands"}


def test_a_command_loads_no_other() -> None:
    loaded = load_modules("policy", "put", "--help")
    assert "router.policies.commands.write" in loaded
    others = ("router.lake.commands", "router.cli.", "router.policies.commands.try_")
    assert {name for name in loaded if name.startswith(others)} == {"router.cli.app"}
