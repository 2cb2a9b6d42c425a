"""What programs, operators and pages see of the router, as lines: what stays when files move.

    settings               each setting and its default                      router config
    tree                   the supervision tree, of one process and of two   router tree
    commands               each command with its options and their defaults  the page of commands
    metrics                each metric with its kind and labels              the page of metrics
    public names           what pages, examples and clients import or run    their code
    modules in pages       the modules and names that prose names            docs/ and README.md
    permissions            what each role may do on the server               deploy/nats
    schemas/NAME           the schema of a message, a .proto file            router contract schemas
    asyncapi/PART          a channel, an operation, a component              router contract
                           asyncapi
    pages/NAME             a page that a script writes                       the table in
                           ARCHITECTURE.md

A section whose name has a slash is large: the kept file has its digest, and no lines.
"""

import importlib
import json
import os
import re
import runpy
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import chdir, contextmanager, redirect_stdout
from importlib.util import find_spec
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.house.measure import REPOSITORY

Sections = dict[str, list[str]]

PAGE_SCRIPT = re.compile(r"`python (deploy/[\w/]+\.py)(?: > docs/reference/(\w+\.md))?`")
FENCED_BLOCK = re.compile(r"^ *```\w*[^\n]*\n(.*?)^ *```", re.MULTILINE | re.DOTALL)
INLINE_CODE = re.compile(r"`([^`\n]+)`")
IMPORT = re.compile(r"^\s*(?:>>> )?from (router[\w.]*) import (\([^)]*\)|[^\n#]+)", re.MULTILINE)
TARGET = re.compile(r"\b(router(?:\.(?!toml|yaml)\w+)+):(\w+)")
RUN_MODULE = re.compile(r"-m (router[\w.]*)")
DOTTED_NAME = re.compile(r"^router(?:\.\w+)+")
# Where a name of python.md comes from: the module of its source, which may move.
ORIGIN = re.compile(r"\(`router[\w.]+`\)")
EXAMPLES = (
    *("router/**/template/**/*.in", "router/sdk/samples/**/*.py"),
    *("clients/typescript/*.md", "clients/typescript/src/**/*", "clients/typescript/examples/**/*"),
    *(
        "deploy/**/*.yaml",
        "deploy/**/*.yml",
        "deploy/**/*.service",
        "deploy/**/*.toml",
        "deploy/spark/*",
        "deploy/Dockerfile",
    ),
)


def collect_sections() -> Sections:
    with hide_machine():
        pages = make_pages()
        sections = {
            "settings": list_settings(),
            "tree": [*run_router("tree"), "", *run_router("tree", "--processes", "2")],
            "commands": list_commands(pages["commands.md"]),
            "metrics": list_metrics(pages["metrics.md"]),
            "public names": sorted(set(list_public_names())),
            "modules in pages": sorted(set(list_named_modules())),
            "permissions": list_permissions(),
        }
        sections |= {f"schemas/{name}": lines for name, lines in make_schemas().items()}
        sections |= {f"asyncapi/{part}": lines for part, lines in make_asyncapi().items()}
    return sections | {f"pages/{name}": lines for name, lines in pages.items()}


@contextmanager
def hide_machine() -> Iterator[None]:
    """Without settings of this machine: in an empty folder, without variables that set any."""
    environ = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("ROUTER_", "NATS_"))
    }
    with (
        tempfile.TemporaryDirectory(prefix="fingerprint-") as folder,
        chdir(folder),
        patch.dict(os.environ, environ | {"COLUMNS": "200"}, clear=True),
    ):
        yield


def run_router(*arguments: str) -> list[str]:
    """What a command prints. It runs here: five processes would import the router five times."""
    out = StringIO()
    with redirect_stdout(out), patch.object(sys, "argv", ["router", *arguments]):
        try:
            runpy.run_module("router", run_name="__main__")
        except SystemExit as ended:
            if ended.code:
                raise
    return out.getvalue().splitlines()


def list_settings() -> list[str]:
    settings = [json.loads(line) for line in run_router("config", "--json")]
    return [
        (
            f"{row['name']} = {'host and process' if row['name'] == 'node_id' else row['default']}"
        ).rstrip()
        for row in settings
    ]


def make_schemas() -> Sections:
    with tempfile.TemporaryDirectory(prefix="fingerprint-") as folder:
        run_router("contract", "schemas", folder)
        files = sorted(file for file in Path(folder).rglob("*") if file.is_file())
        return {str(file.relative_to(folder)): file.read_text().splitlines() for file in files}


def make_asyncapi() -> Sections:
    document = json.loads("\n".join(run_router("contract", "asyncapi", "--json")))
    parts: dict[str, Any] = {}
    for name, value in document.items():
        if name in {"channels", "operations"}:
            parts |= {f"{name}/{entry}": value[entry] for entry in value}
        elif name == "components":
            parts |= {
                f"{kind}/{entry}": value[kind][entry] for kind in value for entry in value[kind]
            }
        else:
            parts[name] = value
    return {
        name: json.dumps(value, indent=1, sort_keys=True).splitlines()
        for name, value in parts.items()
    }


def make_pages() -> Sections:
    """The pages that the table "Where a change goes" tells how to write, made anew."""
    table = (REPOSITORY / "router" / "ARCHITECTURE.md").read_text()
    scripts = dict(PAGE_SCRIPT.findall(table))
    pages = {}
    for script, page in sorted(scripts.items()):
        if script != "deploy/nats/permissions.py":
            pages[page or script.rpartition("/")[2].replace("_page.py", ".md")] = make_page(script)
    return pages


def make_page(script: str) -> list[str]:
    names = runpy.run_path(str(REPOSITORY / script))
    text: str = (names.get("build_page") or names["table"])()
    return ORIGIN.sub("(`router.*`)", text).splitlines()


def list_permissions() -> list[str]:
    """The accounts of deploy/nats, with the lines that follow from the subscriptions made anew."""
    names = runpy.run_path(str(REPOSITORY / "deploy" / "nats" / "permissions.py"))
    made: str = names["write"](names["ACCOUNTS"].read_text(), names["Settings"]())
    lines = (line.partition(" # ")[0].strip() for line in made.splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def list_commands(page: Iterable[str]) -> list[str]:
    """A line for each command of the page, then one for each option, with its default."""
    lines = []
    for line in page:
        if heading := re.match(r"#+ (router .+)$", line):
            lines.append(heading[1])
        elif option := re.match(r"\| `(.+?)` \| .* \| (.*) \|$", line):
            lines.append(f"    {option[1]} {option[2]}".rstrip())
        elif shared := re.match(r"(?:And|Options:) (`.+`)\.$", line):
            lines.append(f"    {shared[1]}")
    return lines


def list_metrics(page: Iterable[str]) -> list[str]:
    rows = (re.match(r"\| `(\w+)` \| ([^|]*) \| ([^|]*) \|", line) for line in page)
    return [f"{row[1]} {row[2].strip()}: {row[3].strip()}".rstrip() for row in rows if row]


def list_public_names() -> Iterator[str]:
    """What a page, an example, a template, a deployment or a client imports or runs."""
    for text in read_examples():
        for module, names in IMPORT.findall(text):
            yield from (describe_name(module, name) for name in split_names(names))
        yield from (describe_name(*target) for target in TARGET.findall(text))
        yield from (f"python -m {module}" for module in RUN_MODULE.findall(text))


def read_examples() -> Iterator[str]:
    for page in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))):
        yield "\n".join(FENCED_BLOCK.findall(page.read_text()))
    for pattern in EXAMPLES:
        yield from (file.read_text() for file in sorted(REPOSITORY.glob(pattern)) if file.is_file())


def split_names(names: str) -> list[str]:
    words = (name.partition(" as ")[0].strip() for name in names.strip().strip("()").split(","))
    return [word for word in words if word.isidentifier()]


def list_named_modules() -> Iterator[str]:
    """`router.core.crashpoints` in a sentence; router.toml is no module, nor a name of one."""
    for page in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").rglob("*.md"))):
        prose = FENCED_BLOCK.sub("", page.read_text())
        if page.name == "python.md":
            prose = ORIGIN.sub("", prose)
        dotted = (DOTTED_NAME.match(code) for code in INLINE_CODE.findall(prose))
        yield from (line for name in dotted if name for line in describe_dotted(name[0]))


def describe_dotted(dotted: str) -> Iterator[str]:
    module, _, name = dotted.rpartition(".")
    if is_module(dotted):
        yield f"{dotted} module"
    elif is_module(module) and module != "router":
        yield describe_name(module, name)


def is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def describe_name(module: str, name: str) -> str:
    """`router.core.errors Poison class`."""
    if not is_module(module):
        return f"{module} {name} missing: there is no such module"
    if is_module(f"{module}.{name}"):
        return f"{module} {name} module"
    value = getattr(importlib.import_module(module), name, None)
    return f"{module} {name} {describe_kind(value)}"


def describe_kind(value: object) -> str:
    if value is None:
        return "missing"
    if isinstance(value, type):
        return "class"
    return "function" if callable(value) else "value"
