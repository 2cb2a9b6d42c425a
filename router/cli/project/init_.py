"""`router init NAME`: the files of a small project, in a directory of this name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer

from router.core.errors import Misconfigured
from router.shell.command_frame import CommandSession, command, skip_settings
from router.shell.output import print_json

TEMPLATE = Path(__file__).parent / "template"
# they are no files of the package: neither its linters nor pytest take them for some
ENDING = ".in"
LEGAL_NAME = re.compile(r"[a-z][a-z0-9_-]{0,62}")  # what Compose takes for a project's name, too

NEXT = """
  next     cd {name}
           pip install -r requirements.txt    # a NATS server, the console, pytest
           router dev                         # serves it, and shows what a request becomes
           make test"""


@command(skip_settings)
def init(
    session: CommandSession,
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Of the project, and of its directory.")
    ],
) -> None:
    """Make a small project: a policy, an extension, a worker, tests that pass, a Makefile and a
    compose file.

    Exit status: 0 it is made, 2 the name is not legal or the directory is there and not empty.

    Example:  router init shop
    """
    from router import __version__

    if not LEGAL_NAME.fullmatch(name):
        raise Misconfigured(
            "NAME",
            f"{name!r} should be lower-case letters, digits, - and _, a letter first, at most 63",
        )
    directory = Path(name)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise Misconfigured(
            "NAME", f"{name} is there already, and not empty: choose another name, or empty it"
        )
    files = write_project(directory, {"name": name, "version": __version__})
    if session.as_json:
        print_json({"directory": name, "files": files})
        return
    print("\n".join(f"  {name}/{file}" for file in files))
    print(NEXT.format(name=name))


def write_project(directory: Path, words: dict[str, str]) -> list[str]:
    """Write each file of the template, `{{word}}` replaced; return their names."""
    files = []
    for source in sorted(TEMPLATE.rglob(f"*{ENDING}")):
        name = str(source.relative_to(TEMPLATE)).removesuffix(ENDING)
        text = source.read_text("utf-8")
        for word, value in words.items():
            text = text.replace(f"{{{{{word}}}}}", value)
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(text, "utf-8")
        files.append(name)
    return files
