"""What a file of router/ may import follows from its name: the laws that import-linter cannot say,
or says by a detour.

model/                   decides: it imports core, contracts and what decides, and nothing else of
                         ours
settings, *_settings     imports core, contracts and other settings
commands                 every function with `@command` stands in a file or folder of that name, or
                         in `cli`
page, pages/, mend       every function that the navigation shows, and every one that writes, stands
                         in one
"""

import re
from functools import cache
from pathlib import Path

import grimp

from tests.house.measure import REPOSITORY

SETTINGS = re.compile(r"\.(\w+_)?settings$")
COMMAND = re.compile(r"^@command\(", re.MULTILINE)
# They join all settings, or load them.
JOINS_SETTINGS = {
    "router.config.settings",
    "router.bus.build_settings",
}


def test_what_decides_imports_core_contracts_settings_and_what_decides_alone() -> None:
    wrong = [
        (module, imported)
        for module in list_ours()
        if decides(module)
        for imported in list_imported(module)
        if not (
            is_below(imported, "core", "contracts")
            or SETTINGS.search(imported)
            or decides(imported)
        )
    ]
    assert wrong == []


def test_settings_import_core_contracts_and_settings_alone() -> None:
    settings = [
        module for module in list_ours() if SETTINGS.search(module) and module not in JOINS_SETTINGS
    ]
    assert len(settings) >= 6
    wrong = [
        (module, imported)
        for module in settings
        for imported in list_imported(module)
        if not (is_below(imported, "core", "contracts") or SETTINGS.search(imported))
    ]
    assert wrong == []


def test_a_command_stands_in_what_is_named_commands_or_in_cli() -> None:
    places = {
        file.relative_to(REPOSITORY / "router").with_suffix("")
        for file in list_files()
        if COMMAND.search(file.read_text())
    }
    assert [
        str(place) for place in places if "commands" not in place.parts and place.parts[0] != "cli"
    ] == []


def test_a_page_of_the_navigation_stands_in_a_file_or_folder_of_that_name() -> None:
    shown = list_imported("router.shell.pages") - {"router.shell.page_data"}
    assert [
        module for module in sorted(shown) if not re.search(r"\.(\w+_)?pages?(\.\w+)?$", module)
    ] == []


def decides(module: str) -> bool:
    return re.match(r"router\.\w+\.model(\.|$)", module) is not None


def is_below(module: str, *rooms: str) -> bool:
    return module.split(".")[1:2] != [] and module.split(".")[1] in rooms


def list_ours() -> list[str]:
    return sorted(read_graph().modules)


def list_imported(module: str) -> set[str]:
    return set(read_graph().find_modules_directly_imported_by(module)) - {"router"}


def list_files() -> list[Path]:
    return [file for file in (REPOSITORY / "router").rglob("*.py") if "pb" not in file.parts]


@cache
def read_graph() -> grimp.ImportGraph:
    return grimp.build_graph("router", cache_dir=None)
